// Walks of a machine against sums in double precision, on machines of all shapes.
#include "nsv.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <vector>

#include "random.hpp"

using namespace vicinal;

namespace {

struct Machine {
    int c, d, n_axes;
    std::vector<std::int32_t> class_sv;
    std::vector<float> vectors, support, bias, axes, basis;
    std::vector<std::int32_t> landmarks;
    Kernel kernel;
    std::int64_t m() const { return static_cast<std::int64_t>(vectors.size()) / d; }
    EarlyMachine make() const {
        return {{{vectors.data(), m(), d}, class_sv.data(), c, support.data(), bias.data(), kernel},
                {{axes.data(), n_axes, d}, landmarks.data(), {basis.data(), n_axes, n_axes}}};
    }
    // What speaks for class a against each other, in exact sums.
    std::vector<double> outputs(const float* x, int a) const {
        std::vector<double> out(c, infinity);
        for (int b = 0; b < c; ++b) {
            if (a == b) continue;
            const int low = std::min(a, b), high = std::max(a, b);
            double g = bias[low * (2 * c - low - 1) / 2 + high - low - 1] * (a == high ? 1.0 : -1.0);
            for (std::int64_t i = 0, first = 0, k = 0; k < c; first += class_sv[k++])
                for (i = first; i < first + class_sv[k]; ++i) {
                    if (k != a && k != b) continue;
                    const int against = k == a ? b : a;
                    double dot = 0.0, squared = 0.0;
                    for (int f = 0; f < d; ++f) {
                        const double v = vectors[i * d + f];
                        dot += v * x[f];
                        squared += (v - x[f]) * (v - x[f]);
                    }
                    const double value = kernel.kind == KernelKind::rbf ? std::exp(-kernel.gamma * squared)
                                         : kernel.kind == KernelKind::sigmoid
                                             ? std::tanh(kernel.gamma * dot + kernel.coef0)
                                             : kernel.from_dot(dot);
                    const int row = k < against ? against - 1 : against;
                    g += (k == a ? 1.0 : -1.0) * support[row * m() + i] * value;
                }
            out[b] = g;
        }
        return out;
    }
};

Machine random_machine(Random& random, int c, int per_class, int d, const Kernel& kernel) {
    Machine machine{c, d, std::min(d, 5), {}, {}, {}, {}, {}, {}, {}, kernel};
    int m = 0;
    for (int a = 0; a < c; ++a) {
        machine.class_sv.push_back(a == 1 && c > 2 ? 0 : per_class + a);  // a class may have no vectors
        m += machine.class_sv.back();
    }
    const auto fill = [&](std::vector<float>& values, std::size_t n, float low, float high) {
        for (std::size_t i = 0; i < n; ++i)
            values.push_back(low + (high - low) * static_cast<float>(random.uniform()));
    };
    fill(machine.vectors, static_cast<std::size_t>(m) * d, -1, 1);
    fill(machine.support, static_cast<std::size_t>(m) * (c - 1), 0, 1);
    fill(machine.bias, c * (c - 1) / 2, -0.1f, 0.1f);
    fill(machine.axes, static_cast<std::size_t>(machine.n_axes) * d, -0.5f, 0.5f);
    fill(machine.basis, static_cast<std::size_t>(machine.n_axes) * machine.n_axes, -0.5f, 0.5f);
    for (int axis = 0; axis < machine.n_axes; ++axis) {
        machine.landmarks.push_back((5 * axis + 1) % m);
        for (int later = axis + 1; later < machine.n_axes; ++later)
            machine.basis[axis * machine.n_axes + later] = 0.0f;
    }
    return machine;
}

void walk(const EarlyMachine& early, const Rows& rows, Embedding embedding, const Walking& walking,
          const std::vector<std::int32_t>& winners, const std::vector<float>& leanings) {
    const int n = static_cast<int>(rows.n), m = static_cast<int>(early.n_vectors()), c = early.n_classes();
    const int n_axes = early.n_axes(embedding), n_steps = early.n_steps(embedding);
    Team team(2);
    std::vector<std::int32_t> leaders(static_cast<std::size_t>(n) * (n_steps + 1));
    std::vector<float> paths(leaders.size());
    early.trace(rows, embedding, n_axes, n_steps, walking, leaders.data(), paths.data(), team);
    for (int q = 0; q < n; ++q) {  // at its end a walk has touched every vector once
        const std::size_t last = static_cast<std::size_t>(q) * (n_steps + 1) + n_steps;
        const float exact = leanings[q * c + leaders[last]];
        if (paths[last] > 1e-3f * m) assert(std::abs(paths[last] - exact) < 1e-3 * (1 + m));
    }
    // Thresholds out of reach: everything is exact. Of two regions, the second is out of reach.
    std::vector<float> limits(static_cast<std::size_t>(c) * 4, infinity);
    std::vector<double> decisions(n * c);
    std::vector<std::int32_t> labels(n), touched(n), regions(n);
    const Answers answers{decisions.data(), labels.data(), touched.data()};
    const int short_walk = std::min(n_steps, 1);
    early.answer(rows, {}, nullptr, {{embedding, n_axes, limits.data(), short_walk}}, nullptr, walking,
                 answers, team);
    for (int q = 0; q < n; ++q) assert(labels[q] == winners[q] && touched[q] == m);
    std::fill_n(limits.begin(), c * (short_walk + 1), -2 * infinity);
    for (int q = 0; q < n; ++q) regions[q] = q % 2;
    early.answer(rows, {}, nullptr, {{embedding, n_axes, limits.data(), short_walk}}, regions.data(), walking,
                 answers, team);
    for (int q = 0; q < n; ++q) assert(q % 2 ? labels[q] == winners[q] && touched[q] == m : touched[q] == 0);
}

// A sketch whose landmarks are the first vectors, and whose axes are those of the machine.
void sketch(const Machine& machine, const EarlyMachine& early, const Rows& rows) {
    const int n = static_cast<int>(rows.n), c = machine.c, e = machine.n_axes, n_scores = c == 2 ? 1 : c;
    const int n_landmarks = static_cast<int>(std::min<std::int64_t>(machine.m(), 19));
    std::vector<float> landmarks(machine.vectors.begin(), machine.vectors.begin() + n_landmarks * machine.d);
    landmarks.resize(static_cast<std::size_t>(n_landmarks) * e, 0.25f);
    const std::vector<float> linear(n_scores * e, 0.5f), weights(n_scores * n_landmarks, 0.125f);
    std::vector<float> bias;
    for (int a = 0; a < n_scores; ++a) bias.push_back(static_cast<float>(a));
    std::vector<double> decisions(n * c);
    std::vector<std::int32_t> labels(n), touched(n);
    Team team(2);
    for (const float limit : {-2 * infinity, infinity}) {
        const std::vector<float> thresholds(c, limit);
        const Sketch all({{machine.axes.data(), e, machine.d},
                          {landmarks.data(), n_landmarks, e},
                          {linear.data(), n_scores, e},
                          {weights.data(), n_scores, n_landmarks},
                          bias.data(),
                          thresholds.data()},
                         machine.kernel);
        early.answer(rows, {}, &all, {}, nullptr, {}, {decisions.data(), labels.data(), touched.data()},
                     team);
        for (int q = 0; q < n; ++q) {
            assert(touched[q] == (limit > 0 ? machine.m() : 0));
            // Scores differ by their biases alone: the last class leads.
            if (limit < 0 && c > 2) assert(labels[q] == c - 1);
        }
    }
}

void check(Random& random, const Machine& machine) {
    const EarlyMachine early = machine.make();
    const int n = 21, c = machine.c, m = static_cast<int>(machine.m());
    std::vector<float> queries;
    for (int i = 0; i < n * machine.d; ++i) queries.push_back(static_cast<float>(2 * random.uniform() - 1));
    const Rows rows{queries.data(), n, machine.d};
    Team team(2);

    std::vector<std::int32_t> winners(n);
    std::vector<float> leanings(n * c);
    early.settle(rows, winners.data(), leanings.data(), team);
    for (int q = 0; q < n; ++q)
        for (int a = 0; a < c; ++a) {
            const auto exact = machine.outputs(rows[q], a);
            const double least = *std::min_element(exact.begin(), exact.end());
            assert(std::abs(leanings[q * c + a] - least) < 1e-4 * (1 + m));
        }
    for (const bool corrected : {false, true})
        for (const bool weighted : {false, true})
            for (const bool balanced : {false, true})
                for (const auto e : {Embedding::pca, Embedding::kernel_pca, Embedding::index})
                    walk(early, rows, e, {corrected, weighted, balanced}, winners, leanings);
    sketch(machine, early, rows);
}

}  // namespace

int main() {
    Random random(7);
    const Kernel kernels[] = {{KernelKind::linear, 0.5, 0.0, 1},
                              {KernelKind::rbf, 0.3, 0.0, 1},
                              {KernelKind::polynomial, 0.4, 1.0, 3},
                              {KernelKind::sigmoid, 0.3, -0.1, 1}};
    for (const Kernel& kernel : kernels)
        for (const int c : {2, 3, 17})
            for (const int d : {1, 7, 16, 70}) check(random, random_machine(random, c, 9, d, kernel));
}
