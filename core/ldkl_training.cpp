#include "ldkl_training.hpp"

#include <algorithm>
#include <cmath>

#include "ldkl_losses.hpp"
#include "ldkl_passage.hpp"

namespace vicinal {

namespace {

constexpr int chunk_size = 128;
constexpr int pieces_of_a_level = 32;  // nodes of a level are cut into as many blocks

// A sum of rows with coefficients: one of a node's gradients.
struct Sum {
    const float* (*coefficients)(const Passage&, int output);
    int output;
    float* out;
};

// K sums over the same rows, V vectors of features at a time: the sums stay in registers.
template <int K, int V, class RowOf>
void add_rows(const std::vector<Passage>& passages, int node, const Sum* sums, int feature,
              const RowOf& row) {
    vfloat total[K][V] = {};
    for (const Passage& passage : passages) {
        if (passage.begin(node) == passage.end(node)) continue;
        const float* coefficients[K];
        for (int k = 0; k < K; ++k) coefficients[k] = sums[k].coefficients(passage, sums[k].output);
        for (int e = passage.begin(node); e < passage.end(node); ++e) {
            const float* x = row(passage.sample(e)) + feature;
            for (int v = 0; v < V; ++v) {
                const vfloat part = load(x + v * lanes);
                for (int k = 0; k < K; ++k) total[k][v] += part * coefficients[k][e];
            }
        }
    }
    for (int k = 0; k < K; ++k)
        for (int v = 0; v < V; ++v) store(sums[k].out + feature + v * lanes, total[k][v]);
}

template <int K, class RowOf>
void add_rows(const std::vector<Passage>& passages, int node, const Sum* sums, int width, const RowOf& row) {
    int f = 0;
    for (; f + 4 * lanes <= width; f += 4 * lanes) add_rows<K, 4>(passages, node, sums, f, row);
    for (; f < width; f += lanes) add_rows<K, 1>(passages, node, sums, f, row);
}

template <class RowOf>
void add_rows(const std::vector<Passage>& passages, int node, const Sum* sums, std::size_t n, int width,
              const RowOf& row) {
    const Sum* end = sums + n;
    for (; sums + 3 <= end; sums += 3) add_rows<3>(passages, node, sums, width, row);
    for (; sums + 2 <= end; sums += 2) add_rows<2>(passages, node, sums, width, row);
    for (; sums < end; ++sums) add_rows<1>(passages, node, sums, width, row);
}

// One pass of a batch through all trees and back.
class Passes {
  public:
    Passes(const SoftForest& forest, const Descent& how, int batch_size, Team& team)
        : f_(forest), how_(how), team_(team), batch_(forest, batch_size), chunks_(team) {
        for (int level = 0; level < f_.depth; ++level) {
            const int n = 1 << level, grain = std::max(1, n / pieces_of_a_level);
            for (int k = 0; k < n; k += grain) blocks_.push_back({n - 1 + k, n - 1 + std::min(n, k + grain)});
        }
    }

    // Follows the rows down; `scored(i, scores, deltas)` for each row says what comes back, if anything.
    template <class Scored>
    void run(const Rows& points, const std::int32_t* order, int n, float sharpness, const float* parameters,
             bool back, const Scored& scored) {
        const int n_chunks = (n + chunk_size - 1) / chunk_size, c = f_.n_outputs;
        passages_.resize(f_.n_trees);
        for (auto& of_tree : passages_) of_tree.resize(n_chunks);
        team_.for_each(n_chunks, [&](std::int64_t which, int member) {
            Chunk& chunk = chunks_[member];
            chunk.first = which * chunk_size;
            chunk.n = std::min(chunk_size, n - static_cast<int>(chunk.first));
            for (int i = 0; i < chunk.n; ++i)
                batch_.put(chunk.first + i, points[order ? order[chunk.first + i] : chunk.first + i]);
            if (how_.dense) {
                chunk.local.fill(batch_.local(chunk.first), chunk.n, f_.n_local(), f_.local_width());
                if (f_.quadratic)
                    chunk.global.fill(batch_.global(chunk.first), chunk.n, f_.n_global(), f_.global_width());
            }
            chunk.scores.assign(static_cast<std::size_t>(chunk.n) * c, 0.0f);
            chunk.deltas.assign(static_cast<std::size_t>(chunk.n) * c, 0.0f);
            for (int tree = 0; tree < f_.n_trees; ++tree) {
                Passage& passage = passages_[tree][which];
                passage.forward(f_, how_, batch_, chunk, sharpness, parameters + tree * tree_size(),
                                chunk.scores.data());
                if (how_.joint) continue;
                turn(chunk, passage, sharpness, back, scored);
                std::fill(chunk.scores.begin(), chunk.scores.end(), 0.0f);
            }
            if (!how_.joint) return;
            for (int i = 0; i < chunk.n; ++i)
                scored(chunk.first + i, chunk.scores.data() + i * c, chunk.deltas.data() + i * c);
            if (!back) return;
            for (int tree = 0; tree < f_.n_trees; ++tree)
                passages_[tree][which].backward(sharpness, chunk.deltas.data());
        });
    }

    // Runs step(tree, node, gradient) for every node; a gradient is a row of parameters.
    template <class Step>
    void for_gradients(const Step& step) {
        PerMember<Gradient> gradients(team_);
        const auto n_blocks = static_cast<std::int64_t>(blocks_.size());
        team_.for_each(n_blocks * f_.n_trees, [&](std::int64_t item, int member) {
            const int tree = static_cast<int>(item / n_blocks);
            Gradient& gradient = gradients[member];
            if (gradient.row.empty()) prepare(gradient);
            for (int k = blocks_[item % n_blocks].first; k < blocks_[item % n_blocks].second; ++k) {
                add_up(passages_[tree], k, gradient);
                step(tree, k, gradient.row.data());
            }
        });
    }

  private:
    std::int64_t tree_size() const { return f_.n_nodes() * f_.row(); }

    template <class Scored>
    void turn(Chunk& chunk, Passage& passage, float sharpness, bool back, const Scored& scored) {
        const int c = f_.n_outputs;
        for (int i = 0; i < chunk.n; ++i)
            scored(chunk.first + i, chunk.scores.data() + i * c, chunk.deltas.data() + i * c);
        if (back) passage.backward(sharpness, chunk.deltas.data());
    }

    // A row of parameters and the sums that it is made of.
    struct Gradient {
        AlignedVector<float> row;
        std::vector<Sum> local, global;  // over features, and over what machines multiply if that differs
    };

    void prepare(Gradient& gradient) const {
        gradient.row.assign(f_.row(), 0.0f);
        float* at = gradient.row.data();
        const int width = f_.local_width();
        gradient.local = {{[](const Passage& p, int) { return p.split(); }, 0, at},
                          {[](const Passage& p, int) { return p.gate(); }, 0, at + width}};
        for (int o = 0; o < f_.n_outputs; ++o)
            (f_.quadratic ? gradient.global : gradient.local)
                .push_back({[](const Passage& p, int output) { return p.machine(output); }, o,
                            at + 2 * width + static_cast<std::int64_t>(o) * f_.global_width()});
    }

    void add_up(const std::vector<Passage>& passages, int node, const Gradient& gradient) const {
        const int without = node < f_.n_inner() ? 0 : 1;  // a leaf has no split
        if (without) std::fill_n(gradient.local[0].out, f_.local_width(), 0.0f);
        const auto local = [&](std::int64_t i) { return batch_.local(i); };
        const auto global = [&](std::int64_t i) { return batch_.global(i); };
        add_rows(passages, node, gradient.local.data() + without, gradient.local.size() - without,
                 f_.local_width(), local);
        add_rows(passages, node, gradient.global.data(), gradient.global.size(), f_.global_width(), global);
    }

    const SoftForest& f_;
    const Descent& how_;
    Team& team_;
    Batch batch_;
    PerMember<Chunk> chunks_;
    std::vector<std::vector<Passage>> passages_;  // by tree and chunk
    std::vector<std::pair<int, int>> blocks_;     // of nodes
};

// Adam with decoupled decay, on n numbers.
//   D. Kingma, J. Ba: Adam, ICLR 2015.  I. Loshchilov, F. Hutter: Decoupled weight decay, ICLR 2019.
struct Adam {
    float beta1, beta2, rate, unbias1, unbias2;

    Adam(const Descent& how, float step_rate, std::int64_t step)
        : beta1(how.beta1), beta2(how.beta2), rate(step_rate) {
        unbias1 = static_cast<float>(1.0 / (1.0 - std::pow(static_cast<double>(beta1), step)));
        unbias2 = static_cast<float>(1.0 / (1.0 - std::pow(static_cast<double>(beta2), step)));
    }

    void operator()(float* p, float* m, float* v, const float* g, int n, float decay) const {
        const float kept = 1.0f - rate * decay, step = rate * unbias1;
        for (int i = 0; i < n; i += lanes) {
            const vfloat gradient = load(g + i);
            const vfloat mean = load(m + i) * beta1 + gradient * (1.0f - beta1);
            const vfloat square = load(v + i) * beta2 + gradient * gradient * (1.0f - beta2);
            store(m + i, mean);
            store(v + i, square);
            store(p + i, load(p + i) * kept - step * mean / (vicinal::sqrt(square * unbias2) + 1e-8f));
        }
    }
};

}  // namespace

std::vector<double> descend(const SoftForest& forest, const Descent& how, const Samples& samples,
                            const Steps& steps, float* parameters, float* moments, Team& team) {
    const std::int64_t row = forest.row(), n_nodes = forest.n_nodes();
    const int c = forest.n_outputs, n_copies = how.joint ? 1 : forest.n_trees;
    float *first = moments, *second = moments + forest.size();
    Passes passes(forest, how, steps.batch, team);
    std::vector<double> losses, of_samples(steps.batch);
    for (std::int64_t at = 0; at < steps.n; at += steps.batch) {
        const auto which = static_cast<std::int64_t>(losses.size());
        const int n = static_cast<int>(std::min<std::int64_t>(steps.batch, steps.n - at));
        const std::int32_t* order = steps.order + at;
        std::fill(of_samples.begin(), of_samples.end(), 0.0);
        passes.run(samples.points, order, n, steps.sharpness[which], parameters, true,
                   [&](std::int64_t i, const float* scores, float* deltas) {
                       const float weight = samples.weights[order[i]];
                       of_samples[i] +=
                           weight * loss_of(how.loss, scores, c, samples.targets[order[i]], deltas);
                       for (int o = 0; o < c; ++o) deltas[o] *= weight / static_cast<float>(n);
                   });
        double loss = 0.0;
        for (int i = 0; i < n; ++i) loss += of_samples[i];
        losses.push_back(loss / n / n_copies);
        if (!std::isfinite(losses.back())) break;
        const Adam adam(how, steps.rates[which], steps.n_before + which + 1);
        passes.for_gradients([&](int tree, int node, const float* gradient) {
            const std::int64_t k = (tree * n_nodes + node) * row;
            const int width = forest.local_width();
            const auto take = [&](int from, int to, float decay) {
                adam(parameters + k + from, first + k + from, second + k + from, gradient + from, to - from,
                     decay);
            };
            if (node < forest.n_inner()) take(0, width, how.decay[0]);
            take(width, 2 * width, how.decay[1]);
            take(2 * width, static_cast<int>(row), how.decay[2]);
        });
    }
    return losses;
}

double loss_gradient(const SoftForest& forest, const Descent& how, const Samples& samples, float sharpness,
                     const float* parameters, float* gradient, Team& team) {
    const int n = static_cast<int>(samples.points.n), c = forest.n_outputs;
    Passes passes(forest, how, n, team);
    std::vector<double> losses(n, 0.0);
    passes.run(samples.points, nullptr, n, sharpness, parameters, true,
               [&](std::int64_t i, const float* scores, float* deltas) {
                   losses[i] += samples.weights[i] * loss_of(how.loss, scores, c, samples.targets[i], deltas);
                   for (int o = 0; o < c; ++o) deltas[o] *= samples.weights[i] / static_cast<float>(n);
               });
    passes.for_gradients([&](int tree, int node, const float* row) {
        std::copy_n(row, forest.row(),
                    gradient + (static_cast<std::int64_t>(tree) * forest.n_nodes() + node) * forest.row());
    });
    double loss = 0.0;
    for (const double each : losses) loss += each;
    return loss / n;
}

void soft_scores(const SoftForest& forest, const Descent& how, const Rows& points, float sharpness,
                 const float* parameters, float* scores, Team& team) {
    const int n = static_cast<int>(points.n), c = forest.n_outputs;
    Passes passes(forest, how, n, team);
    passes.run(points, nullptr, n, sharpness, parameters, false,
               [&](std::int64_t i, const float* row, float*) { std::copy_n(row, c, scores + i * c); });
}

}  // namespace vicinal
