#include "ldkl.hpp"

#include <algorithm>

namespace vicinal {

namespace {

// The sixteen partial sums of a dot product.
inline vfloat partial_dot(const float* x, const float* p, int width) {
    vfloat total = load(x) * load(p);
    for (int f = lanes; f < width; f += lanes) total += load(x + f) * load(p + f);
    return total;
}

}  // namespace

Forest::Forest(const ForestView& view)
    : n_local_(view.n_local()),
      n_outputs_(view.n_outputs),
      local_width_(padded(view.n_local())),
      global_width_(padded(view.weights.d)),
      sigma_(view.sigma),
      constant_(view.constant),
      quadratic_(view.quadratic),
      compositional_(view.compositional),
      n_inner_(static_cast<std::int32_t>(view.n_inner())),
      nodes_(view.n_nodes() + 1),
      roots_(view.roots) {
    const auto nowhere = static_cast<std::int32_t>(view.n_nodes());
    std::int64_t at = 0;
    for (std::int32_t k = 0; k <= nowhere; ++k) {
        const bool inner = k < n_inner_;
        nodes_[k].at = at;
        for (int side = 0; side < 2; ++side) {
            const std::int32_t child = inner ? view.children[2 * k + side] : -1;
            nodes_[k].children[side] = child < 0 ? nowhere : child;
        }
        at += (inner ? 2 : 1) * local_width_ + static_cast<std::int64_t>(n_outputs_) * global_width_;
    }
    packed_.assign(at + local_width_, 0.0f);  // a walk at a leaf may read a split's length beyond it
    for (std::int32_t k = 0; k < nowhere; ++k) {
        float* p = packed_.data() + nodes_[k].at;
        const auto put = [&](const float* row, int n, int width) {
            std::copy_n(row, n, p);
            p += width;
        };
        put(view.gates[k], n_local_, local_width_);
        for (int c = 0; c < n_outputs_; ++c)
            put(view.weights[static_cast<std::int64_t>(k) * n_outputs_ + c], view.weights.d, global_width_);
        if (k < n_inner_) put(view.splits[k], n_local_, local_width_);
    }
}

// Sixteen queries, one a lane.
class Forest::Walk {
  public:
    explicit Walk(const Forest& forest)
        : f_(forest), local_(lanes * f_.local_width_, 0.0f), scores_(f_.n_outputs_) {
        if (f_.quadratic_) global_.assign(static_cast<std::size_t>(lanes) * f_.global_width_, 0.0f);
    }

    void run(const Rows& queries, std::int64_t first, int n, float* out) {
        n_ = n;
        for (int q = 0; q < n; ++q) {
            float* x = local_.data() + q * f_.local_width_;
            std::copy_n(queries[first + q], queries.d, x);
            x[queries.d] = f_.constant_;
            if (f_.quadratic_) pair_products(x, f_.n_local_, global_.data() + q * f_.global_width_);
        }
        std::fill(scores_.begin(), scores_.end(), vfloat{});
        for (const std::int32_t root : f_.roots_) walk(root);
        for (int q = 0; q < n; ++q)
            for (int c = 0; c < f_.n_outputs_; ++c) out[(first + q) * f_.n_outputs_ + c] = scores_[c][q];
    }

  private:
    void walk(std::int32_t root) {
        std::int32_t at[lanes];
        std::fill_n(at, lanes, root);
        vfloat product = splat(1.0f);
        for (bool ended = false; !ended;) {
            const float* row[lanes];
            bool inner = false;
            for (int q = 0; q < n_; ++q) {
                row[q] = f_.packed_.data() + f_.nodes_[at[q]].at;
                inner |= at[q] < f_.n_inner_;
            }
            vfloat side{}, gate{}, first{};
            multiply(row, side, gate, first);
            ended = !inner;
            if (inner) ended = !advance(at, side);
            gate = vicinal::tanh(gate * f_.sigma_);
            if (f_.compositional_) gate = product *= gate;
            scores_[0] += gate * first;
            for (int c = 1; c < f_.n_outputs_; ++c)
                scores_[c] += gate * dots(row, f_.local_width_ + c * f_.global_width_);
        }
    }

    // With split, gate and first machine, which share the reading of a query where they can. Where a walk
    // is at a leaf or has ended, what is said of its side means nothing.
    void multiply(const float* const* row, vfloat& side, vfloat& gate, vfloat& first) const {
        const int width = f_.local_width_, split = width + f_.n_outputs_ * f_.global_width_;
        vfloat z[lanes], u[lanes], y[lanes];
        for (int q = 0; q < n_; ++q) {
            const float *x = local_.data() + q * width, *p = row[q];
            vfloat at_split{}, at_gate{}, at_machine{};
            for (int f = 0; f < width; f += lanes) {
                const vfloat v = load(x + f);
                at_gate += v * load(p + f);
                at_machine += v * load(p + width + f);
                at_split += v * load(p + split + f);
            }
            z[q] = at_split, u[q] = at_gate, y[q] = at_machine;
        }
        for (int q = n_; q < lanes; ++q) z[q] = u[q] = y[q] = vfloat{};
        side = sums(z);
        gate = sums(u);
        first = f_.quadratic_ ? dots(row, width) : sums(y);
    }

    // To the children, of which the beginning is fetched. Whether any walk goes on.
    bool advance(std::int32_t* at, vfloat side) const {
        bool more = false;
        alignas(64) float sides[lanes];
        store(sides, side);
        for (int q = 0; q < n_; ++q) {
            at[q] = f_.nodes_[at[q]].children[sides[q] > 0.0f];
            __builtin_prefetch(f_.packed_.data() + f_.nodes_[at[q]].at);
            more |= at[q] + 1 < static_cast<std::int32_t>(f_.nodes_.size());
        }
        return more;
    }

    // Of what machines multiply with the vector at `offset` in each row.
    vfloat dots(const float* const* row, int offset) const {
        const float* x = f_.quadratic_ ? global_.data() : local_.data();
        vfloat partial[lanes] = {};
        for (int q = 0; q < n_; ++q)
            partial[q] = partial_dot(x + static_cast<std::int64_t>(q) * f_.global_width_, row[q] + offset,
                                     f_.global_width_);
        return sums(partial);
    }

    const Forest& f_;
    AlignedVector<float> local_, global_;
    std::vector<vfloat, CacheAligned<vfloat>> scores_;
    int n_ = 0;
};

void Forest::score(const Rows& queries, float* scores, Team& team) const {
    constexpr std::int64_t grain = 64;  // groups of sixteen: long enough to pay for a walk's buffers
    for_ranges(team, n_blocks(queries.n), grain, [&](std::int64_t begin, std::int64_t end, int) {
        Walk walk(*this);
        for (std::int64_t b = begin; b < end; ++b)
            walk.run(queries, b * lanes,
                     static_cast<int>(std::min<std::int64_t>(lanes, queries.n - b * lanes)), scores);
    });
}

}  // namespace vicinal
