#include "ldkl.hpp"

#include <algorithm>

namespace vicinal {

namespace {

inline float dot(const float* x, const float* p, int width) {
    vfloat total = load(x) * load(p);
    for (int f = lanes; f < width; f += lanes) total += load(x + f) * load(p + f);
    return sum(total);
}

// One vector at p for each of the rows: partial[r] holds the sixteen partial sums of row r.
inline vfloat partial_dot(const float* x, const float* p, int width) {
    vfloat total = load(x) * load(p);
    for (int f = lanes; f < width; f += lanes) total += load(x + f) * load(p + f);
    return total;
}

inline void fetch(const float* p, int n) {
    for (int f = 0; f < n; f += lanes) __builtin_prefetch(p + f);
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
      nodes_(view.n_nodes()),
      roots_(view.roots) {
    std::int64_t at = 0;
    for (std::int32_t k = 0; k < static_cast<std::int32_t>(nodes_.size()); ++k) {
        const bool inner = k < n_inner_;
        nodes_[k].at = at;
        for (int side = 0; side < 2; ++side)
            nodes_[k].children[side] = inner ? view.children[2 * k + side] : -1;
        at += (inner ? 2 : 1) * local_width_ + static_cast<std::int64_t>(n_outputs_) * global_width_;
    }
    packed_.assign(at, 0.0f);
    for (std::int32_t k = 0; k < static_cast<std::int32_t>(nodes_.size()); ++k) {
        float* p = packed_.data() + nodes_[k].at;
        const auto put = [&](const float* row, int n, int width) {
            std::copy_n(row, n, p);
            p += width;
        };
        if (k < n_inner_) put(view.splits[k], n_local_, local_width_);
        put(view.gates[k], n_local_, local_width_);
        for (int c = 0; c < n_outputs_; ++c)
            put(view.weights[static_cast<std::int64_t>(k) * n_outputs_ + c], view.weights.d, global_width_);
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
        for (int q = 0; q < lanes; ++q) at[q] = q < n_ ? root : -1;
        vfloat product = splat(1.0f);
        for (bool more = true; more;) {
            std::int32_t next[lanes];
            more = step(at, next);
            vfloat gate = vicinal::tanh(dots(at, local_.data(), f_.local_width_, 0) * f_.sigma_);
            if (f_.compositional_) gate = product *= gate;
            const float* x = f_.quadratic_ ? global_.data() : local_.data();
            for (int c = 0; c < f_.n_outputs_; ++c)
                scores_[c] += gate * dots(at, x, f_.global_width_, f_.local_width_ + c * f_.global_width_);
            std::copy_n(next, lanes, at);
        }
    }

    // To the children, of which all that will be read is fetched.
    bool step(const std::int32_t* at, std::int32_t* next) {
        bool more = false;
        for (int q = 0; q < lanes; ++q) {
            next[q] = -1;
            if (at[q] < 0 || at[q] >= f_.n_inner_) continue;
            const Node& node = f_.nodes_[at[q]];
            const float side =
                dot(local_.data() + q * f_.local_width_, f_.packed_.data() + node.at, f_.local_width_);
            next[q] = node.children[side > 0.0f];
            if (next[q] < 0) continue;
            more = true;
            fetch(f_.packed_.data() + f_.nodes_[next[q]].at,
                  (next[q] < f_.n_inner_ ? 2 : 1) * f_.local_width_ + f_.global_width_);
        }
        return more;
    }

    // Of each query with the vector at `offset` behind the split of its node, 0 where it has left the tree.
    vfloat dots(const std::int32_t* at, const float* x, int width, int offset) const {
        vfloat partial[lanes];
        for (int q = 0; q < lanes; ++q) {
            if (at[q] < 0) {
                partial[q] = vfloat{};
                continue;
            }
            const float* p =
                f_.packed_.data() + f_.nodes_[at[q]].at + (at[q] < f_.n_inner_ ? f_.local_width_ : 0);
            partial[q] = partial_dot(x + q * width, p + offset, width);
        }
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
