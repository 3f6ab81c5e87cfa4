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
    std::vector<float> vectors, support, bias, axes;
    Kernel kernel;
    std::int64_t m() const { return static_cast<std::int64_t>(vectors.size()) / d; }
    EarlyMachine make() const {
        return {{{vectors.data(), m(), d}, class_sv.data(), c, support.data(), bias.data(), kernel},
                {axes.data(), n_axes, d}};
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
    Machine machine{c, d, std::min(d, 5), {}, {}, {}, {}, {}, kernel};
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
    return machine;
}

void check(Random& random, const Machine& machine) {
    const EarlyMachine early = machine.make();
    const int n = 21, c = machine.c, m = static_cast<int>(machine.m());
    std::vector<float> queries;
    for (int i = 0; i < n * machine.d; ++i) queries.push_back(static_cast<float>(2 * random.uniform() - 1));
    const Rows rows{queries.data(), n, machine.d};
    Team team(2);

    std::vector<std::int32_t> winners(n), leaders(static_cast<std::size_t>(n) * (m + 1));
    std::vector<float> leanings(n * c), paths(leaders.size());
    early.settle(rows, winners.data(), leanings.data(), team);
    for (int q = 0; q < n; ++q)
        for (int a = 0; a < c; ++a) {
            const auto exact = machine.outputs(rows[q], a);
            const double least = *std::min_element(exact.begin(), exact.end());
            assert(std::abs(leanings[q * c + a] - least) < 1e-4 * (1 + m));
        }
    for (const bool corrected : {false, true})
        for (const bool weighted : {false, true})
            for (const bool balanced : {false, true}) {
                const Walking walking{corrected, weighted, balanced};
                early.trace(rows, machine.n_axes, m, walking, leaders.data(), paths.data(), team);
                for (int q = 0; q < n; ++q) {  // at its end a walk has touched every vector once
                    const std::size_t last = static_cast<std::size_t>(q) * (m + 1) + m;
                    const float exact = leanings[q * c + leaders[last]];
                    if (paths[last] > 1e-3f * m) assert(std::abs(paths[last] - exact) < 1e-3 * (1 + m));
                }
                // Thresholds out of reach: everything is exact.
                const std::vector<float> never(static_cast<std::size_t>(c) * 4, infinity);
                std::vector<double> decisions(n * c);
                std::vector<std::int32_t> labels(n), touched(n);
                early.answer(rows, {}, {{machine.n_axes, never.data(), 3}}, walking,
                             {decisions.data(), labels.data(), touched.data()}, team);
                for (int q = 0; q < n; ++q) assert(labels[q] == winners[q] && touched[q] == m);
            }
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
