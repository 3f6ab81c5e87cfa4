// How a chunk of samples passes through a soft tree, and back.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>

#include "ldkl_training.hpp"

namespace vicinal {

// The rows of a batch with the constant feature, and what the machines multiply.
class Batch {
  public:
    Batch(const SoftForest& forest, std::int64_t size) : f_(forest), local_(size * f_.local_width(), 0.0f) {
        if (f_.quadratic) global_.assign(size * f_.global_width(), 0.0f);
    }
    void put(std::int64_t i, const float* row) {
        float* x = local_.data() + i * f_.local_width();
        std::copy_n(row, f_.n_features, x);
        x[f_.n_features] = f_.constant;
        if (f_.quadratic) pair_products(x, f_.n_local(), global_.data() + i * f_.global_width());
    }
    const float* local(std::int64_t i) const { return local_.data() + i * f_.local_width(); }
    const float* global(std::int64_t i) const {
        return f_.quadratic ? global_.data() + i * f_.global_width() : local(i);
    }

  private:
    const SoftForest& f_;
    AlignedVector<float> local_, global_;
};

// Samples side by side, feature by feature, for products with many nodes.
class Columns {
  public:
    static constexpr int at_once = 4;              // blocks of samples, whose sums stay in registers
    static constexpr int slack = lanes * at_once;  // products write that far beyond the last sample

    void fill(const float* rows, int n, int d, int width) {
        d_ = d;
        stride_ = (n + slack - 1) / slack * slack;
        data_.assign(static_cast<std::size_t>(d) * stride_, 0.0f);
        for (int i = 0; i < n; ++i)
            for (int f = 0; f < d; ++f)
                data_[f * stride_ + i] = rows[static_cast<std::int64_t>(i) * width + f];
    }

    bool filled() const { return d_ > 0; }

    // All samples with K vectors.
    template <std::size_t K>
    void multiply(const std::array<const float*, K>& vectors, const std::array<float*, K>& out) const {
        for (int i = 0; i < stride_; i += slack) {
            vfloat total[K][at_once] = {};
            for (int f = 0; f < d_; ++f) {
                const float* x = data_.data() + f * stride_ + i;
                for (int b = 0; b < at_once; ++b) {
                    const vfloat column = load(x + b * lanes);
                    for (std::size_t k = 0; k < K; ++k) total[k][b] += column * vectors[k][f];
                }
            }
            for (std::size_t k = 0; k < K; ++k)
                for (int b = 0; b < at_once; ++b) store(out[k] + i + b * lanes, total[k][b]);
        }
    }

  private:
    AlignedVector<float> data_;
    int d_ = 0, stride_ = 0;
};

struct Chunk {
    std::int64_t first;  // in the batch
    int n;
    Columns local, global;
    std::vector<float> scores, deltas;
};

// The pairs (node, sample) of a chunk in a tree, by node and then by sample. After the way back, `split`,
// `gate` and `machine` are the coefficients of the gradients.
class Passage {
  public:
    // Follows the samples down and adds to their scores.
    void forward(const SoftForest& forest, const Descent& how, const Batch& batch, const Chunk& chunk,
                 float sharpness, const float* parameters, float* scores) {
        f_ = &forest;
        first_ = chunk.first;
        n_ = chunk.n;
        begin_.resize(f_->n_nodes());
        end_.resize(f_->n_nodes());
        machine_.resize(f_->n_outputs);
        grow(0, n_);
        begin_[0] = 0;
        end_[0] = n_;
        for (int i = 0; i < n_; ++i) sample_[i] = i, node_[i] = 0, flow_[i] = 1.0f;
        for (int level = 0; level < f_->depth; ++level) {
            const int low = (1 << level) - 1, high = 2 * low + 1;
            const bool inner = level + 1 < f_->depth;
            multiply(batch, chunk, low, high, inner, parameters);
            activate(begin_[low], end_[high - 1], inner ? sharpness : 0.0f, scores);
            if (inner) part(how, low, high);
        }
    }

    // From what a unit of each score adds to the loss to the coefficients.
    void backward(float sharpness, const float* deltas) {
        for (int level = f_->depth - 1; level >= 0; --level) {
            const int low = (1 << level) - 1, high = 2 * low + 1;
            const bool inner = level + 1 < f_->depth;
            for (int e = begin_[low]; e < end_[high - 1]; e += lanes)
                turn(e, std::min(lanes, end_[high - 1] - e), inner, sharpness, deltas);
        }
    }

    int begin(int node) const { return begin_[node]; }
    int end(int node) const { return end_[node]; }
    std::int64_t sample(int pair) const { return first_ + sample_[pair]; }
    const float* split() const { return split_.data(); }
    const float* gate() const { return gate_.data(); }
    const float* machine(int o) const { return machine_[o].data(); }

  private:
    static constexpr int slack = Columns::slack;

    // Makes room for n pairs from `begin` on, and for what vector code does behind them.
    void grow(int begin, int n) {
        const std::size_t size = static_cast<std::size_t>(begin) + n + slack;
        if (size <= flow_.size() && machine_.back().size() == flow_.size()) return;
        const std::size_t room = std::max(flow_.size(), size + size / 2);
        for (auto* v : {&sample_, &node_, &left_, &right_}) v->resize(room);
        for (auto* v : {&flow_, &split_, &gate_, &value_}) v->resize(room);
        for (auto& v : machine_) v.resize(room);
    }

    bool full(int node) const { return end_[node] - begin_[node] == n_; }

    // The dot products of the nodes [low, high) with the samples that reach them.
    void multiply(const Batch& batch, const Chunk& chunk, int low, int high, bool inner,
                  const float* parameters) {
        const std::int64_t row = f_->row();
        const int width = f_->local_width(), n_outputs = f_->n_outputs;
        for (int k = low; k < high;) {
            if (!full(k) || !chunk.local.filled()) {
                const int from = begin_[k];
                while (k < high && !(full(k) && chunk.local.filled())) ++k;
                pairs(batch, from, end_[k - 1], inner, parameters);
                continue;
            }
            const float *split = parameters + k * row, *gate = split + width, *machine = gate + width;
            float *z = split_.data() + begin_[k], *u = gate_.data() + begin_[k];
            if (n_outputs == 1 && !f_->quadratic) {
                float* y = machine_[0].data() + begin_[k];
                if (inner)
                    chunk.local.multiply<3>({split, gate, machine}, {z, u, y});
                else
                    chunk.local.multiply<2>({gate, machine}, {u, y});
            } else {
                if (inner)
                    chunk.local.multiply<2>({split, gate}, {z, u});
                else
                    chunk.local.multiply<1>({gate}, {u});
                const Columns& global = f_->quadratic ? chunk.global : chunk.local;
                for (int o = 0; o < n_outputs; ++o)
                    global.multiply<1>({machine + o * f_->global_width()}, {machine_[o].data() + begin_[k]});
            }
            ++k;
        }
    }

    // The same pair by pair, sixteen at a time. Where all multiply the same features, these are read once.
    void pairs(const Batch& batch, int begin, int end, bool inner, const float* parameters) {
        if (inner)
            pairs<true>(batch, begin, end, parameters);
        else
            pairs<false>(batch, begin, end, parameters);
        const int width = f_->local_width(), global_width = f_->global_width();
        for (int o = f_->quadratic ? 0 : 1; o < f_->n_outputs; ++o)
            for (int e = begin; e < end; e += lanes) {
                const int m = std::min(lanes, end - e);
                vfloat y[lanes];
                for (int i = 0; i < lanes; ++i) {
                    const int pair = e + std::min(i, m - 1);
                    const float* p = parameters + node_[pair] * f_->row() + 2 * width + o * global_width;
                    const float* x = batch.global(first_ + sample_[pair]);
                    vfloat total{};
                    for (int f = 0; f < global_width; f += lanes) total += load(x + f) * load(p + f);
                    y[i] = total;
                }
                store(machine_[o].data() + e, sums(y));
            }
    }

    template <bool inner>
    void pairs(const Batch& batch, int begin, int end, const float* parameters) {
        const int width = f_->local_width();
        const std::int64_t row = f_->row();
        for (int e = begin; e < end; e += lanes) {
            const int m = std::min(lanes, end - e);
            vfloat z[lanes], u[lanes], y[lanes];
            for (int i = 0; i < lanes; ++i) {
                const int pair = e + std::min(i, m - 1);
                const float* p = parameters + node_[pair] * row;
                const float* x = batch.local(first_ + sample_[pair]);
                vfloat at_split{}, at_gate{}, at_machine{};
                for (int f = 0; f < width; f += lanes) {
                    const vfloat v = load(x + f);
                    if constexpr (inner) at_split += v * load(p + f);
                    at_gate += v * load(p + width + f);
                    at_machine += v * load(p + 2 * width + f);
                }
                z[i] = at_split, u[i] = at_gate, y[i] = at_machine;
            }
            if constexpr (inner) store(split_.data() + e, sums(z));
            store(gate_.data() + e, sums(u));
            store(machine_[0].data() + e, sums(y));  // of quadratic features, to be overwritten
        }
    }

    // From dot products to values, and into the scores.
    void activate(int begin, int end, float sharpness, float* scores) {
        const int n_outputs = f_->n_outputs;
        for (int e = begin; e < end; e += lanes) {
            const vfloat gate = vicinal::tanh(load(gate_.data() + e) * f_->sigma);
            if (sharpness > 0.0f)
                store(split_.data() + e, vicinal::tanh(load(split_.data() + e) * sharpness));
            store(gate_.data() + e, gate);
            const vfloat weight = gate * load(flow_.data() + e);
            const int m = std::min(lanes, end - e);
            for (int o = 0; o < n_outputs; ++o) {
                const vfloat term = weight * load(machine_[o].data() + e);
                for (int i = 0; i < m; ++i) scores[sample_[e + i] * n_outputs + o] += term[i];
            }
        }
    }

    // Parts the samples of the nodes [low, high) among their children.
    void part(const Descent& how, int low, int high) {
        int at = (end_[high - 1] + slack - 1) / slack * slack;  // a level starts a group of its own
        grow(at, 2 * (end_[high - 1] - begin_[low]));
        const float threshold = how.paths ? how.threshold : -1.0f;
        for (int k = low; k < high; ++k)
            for (int side = 0; side < 2; ++side) {
                const int child = 2 * k + 1 + side;
                begin_[child] = at;
                // Of a node that most reach all are computed: the product costs less than the list.
                const bool whole =
                    full(k) && (!how.paths || (how.dense && 2 * n_kept(k, side, threshold) >= n_));
                at = whole ? follow_all(k, side, at) : follow(k, side, at, threshold);
                end_[child] = at;
            }
    }

    // How much arrives at a child of sixteen pairs from e on.
    vfloat flow_on(int e, int side) const {
        const vfloat t = load(split_.data() + e);
        const vfloat share = 0.5f * (side ? 1.0f + t : 1.0f - t), flow = load(flow_.data() + e) * share;
        return f_->compositional ? flow * load(gate_.data() + e) : flow;
    }

    int n_kept(int k, int side, float threshold) const {
        vint kept{};
        for (int e = begin_[k]; e < end_[k]; e += lanes) {
            const vfloat flow = flow_on(e, side);
            kept -= (max(flow, -flow) > splat(threshold)) & (lane_index() < splat(end_[k] - e));
        }
        int n = 0;
        for (int i = 0; i < lanes; ++i) n += kept[i];
        return n;
    }

    int follow_all(int k, int side, int at) {
        auto& link = side ? right_ : left_;
        const int child = 2 * k + 1 + side, n = end_[k] - begin_[k];
        for (int i = 0; i < n; i += lanes) {
            const vint index = lane_index() + i;
            store(flow_.data() + at + i, flow_on(begin_[k] + i, side));
            store(sample_.data() + at + i, index);
            store(node_.data() + at + i, splat(child));
        }
        for (int i = 0; i < n; ++i) link[begin_[k] + i] = at + i;
        return at + n;
    }

    int follow(int k, int side, int at, float threshold) {
        std::int32_t* link = side ? right_.data() : left_.data();
        for (int e = begin_[k]; e < end_[k]; ++e) {
            const float share = 0.5f * (side ? 1.0f + split_[e] : 1.0f - split_[e]);
            const float flow = flow_[e] * share * (f_->compositional ? gate_[e] : 1.0f);
            const bool kept = std::abs(flow) > threshold;
            flow_[at] = flow;
            sample_[at] = sample_[e];
            node_[at] = 2 * k + 1 + side;
            link[e] = kept ? at : -1;
            at += kept;
        }
        return at;
    }

    // The coefficients of a group of pairs, all children of which are done.
    void turn(int e, int m, bool inner, float sharpness, const float* deltas) {
        const int n_outputs = f_->n_outputs;
        alignas(64) float drawn[lanes] = {}, left[lanes] = {}, right[lanes] = {};
        for (int i = 0; i < m; ++i)
            for (int o = 0; o < n_outputs; ++o)
                drawn[i] += deltas[sample_[e + i] * n_outputs + o] * machine_[o][e + i];
        for (int i = 0; inner && i < m; ++i) {
            left[i] = left_[e + i] < 0 ? 0.0f : value_[left_[e + i]];
            right[i] = right_[e + i] < 0 ? 0.0f : value_[right_[e + i]];
        }
        const vfloat flow = load(flow_.data() + e), gate = load(gate_.data() + e);
        const vfloat t = inner ? load(split_.data() + e) : vfloat{};
        const vfloat below = 0.5f * ((1.0f - t) * load(left) + (1.0f + t) * load(right));
        const vfloat at_gate = f_->compositional ? load(drawn) + below : load(drawn);
        const vfloat passed = f_->compositional ? flow * gate : flow;
        store(value_.data() + e, f_->compositional ? gate * at_gate : gate * at_gate + below);
        store(split_.data() + e, passed * (0.5f * sharpness) * (1.0f - t * t) * (load(right) - load(left)));
        store(gate_.data() + e, flow * f_->sigma * (1.0f - gate * gate) * at_gate);
        const vfloat weight = flow * gate;
        for (int o = 0; o < n_outputs; ++o)
            for (int i = 0; i < m; ++i)
                machine_[o][e + i] = weight[i] * deltas[sample_[e + i] * n_outputs + o];
    }

    const SoftForest* f_ = nullptr;
    std::int64_t first_ = 0;
    int n_ = 0;
    std::vector<int> begin_, end_;                              // of each node
    AlignedVector<std::int32_t> sample_, node_, left_, right_;  // of each pair; children's pairs or -1
    // How much of the sample arrives, times all gates above in the compositional form; what the subtree
    // adds to the loss.
    AlignedVector<float> flow_, value_, split_, gate_;
    std::vector<AlignedVector<float>> machine_;  // by output
};

}  // namespace vicinal
