// Exact k nearest neighbours by a fused blocked scan, and the parts that the tree shares with it.
//
// Cost of the scan: n d subtractions and multiply-adds a query, no matter how the data lies. Every
// block of points is read once for several queries, its distances stay in registers, and only those
// below the query's running bound leave them: the distance matrix is never written.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

#include "parallel.hpp"
#include "points.hpp"

namespace vicinal {

// The metric of a kernel's feature space: K(x,x) + K(y,y) - 2 K(x,y). For linear and RBF kernels its
// order is the Euclidean one, which is computed instead. Polynomial distances cancel badly, so they
// are summed in double precision.
struct Metric {
    static constexpr double farthest = 1e38;  // a finite float: farther points are at this distance

    Kernel kernel;
    int d = 0;

    double self(const float* x) const {
        if (kernel.euclidean()) return 0.0;
        double dot = 0.0;
        for (int f = 0; f < d; ++f) dot += static_cast<double>(x[f]) * x[f];
        return kernel.from_dot(dot);
    }

    vfloat squared(const float* x, double x_self, const float* block, const double* block_self) const {
        if (kernel.euclidean()) return squared_distances(x, block, d);
        double dot[lanes] = {};
        for (int f = 0; f < d; ++f)
            for (int l = 0; l < lanes; ++l) dot[l] += static_cast<double>(x[f]) * block[f * lanes + l];
        vfloat out;
        for (int l = 0; l < lanes; ++l) {
            const double selves = x_self + block_self[l], squared = selves - 2.0 * kernel.from_dot(dot[l]);
            out[l] = squared > 1e-14 * selves ? static_cast<float>(std::min(squared, farthest))
                                              : 0.0f;  // below: rounding of equal points
        }
        return out;
    }

    float distance(const float* x, const float* y) const {
        double squared = 0.0, dot = 0.0;
        for (int f = 0; f < d; ++f) {
            const double difference = static_cast<double>(x[f]) - y[f];
            squared += difference * difference;
            dot += static_cast<double>(x[f]) * y[f];
        }
        if (!kernel.euclidean()) squared = std::max(0.0, self(x) + self(y) - 2.0 * kernel.from_dot(dot));
        return static_cast<float>(std::sqrt(std::min(squared, farthest)));
    }

    // How far cancellation may have moved a distance between points of these self-products.
    float cancellation(double x_self, double y_self) const {
        return kernel.euclidean() ? 0.0f : static_cast<float>(std::sqrt(4e-14 * (x_self + y_self)));
    }

    // How far rounding may have moved a distance computed in single precision, relative to its size.
    float relative_error() const { return static_cast<float>(d + 8) * 6e-8f; }
};

// Points in blocks, with what the metric needs of each.
struct BlockedPoints {
    AlignedVector<float> data;
    AlignedVector<double> self;  // polynomial only
    int d = 0;

    template <class Index>
    void assign(const Rows& rows, const Index* index, std::int64_t n, const Metric& metric, Team& team) {
        resize(rows, n, metric);
        for_ranges(team, n_blocks(n), 256, [&](std::int64_t begin, std::int64_t end, int) {
            fill(rows, index, n, metric, begin, end);
        });
    }
    template <class Index>
    void assign(const Rows& rows, const Index* index, std::int64_t n, const Metric& metric) {
        resize(rows, n, metric);
        fill(rows, index, n, metric, 0, n_blocks(n));
    }
    const float* block(std::int64_t b) const { return data.data() + b * lanes * d; }
    const double* block_self(std::int64_t b) const {
        return self.empty() ? nullptr : self.data() + b * lanes;
    }

  private:
    void resize(const Rows& rows, std::int64_t n, const Metric& metric) {
        d = rows.d;
        data.resize(static_cast<std::size_t>(n_blocks(n)) * lanes * d);
        if (!metric.kernel.euclidean()) self.resize(static_cast<std::size_t>(n_blocks(n)) * lanes);
    }
    template <class Index>
    void fill(const Rows& rows, const Index* index, std::int64_t n, const Metric& metric, std::int64_t begin,
              std::int64_t end) {
        for (std::int64_t b = begin; b < end; ++b) {
            const int filled = static_cast<int>(std::min<std::int64_t>(lanes, n - b * lanes));
            gather_block(rows, index + b * lanes, filled, data.data() + b * lanes * d);
            if (!self.empty())
                for (int l = 0; l < lanes; ++l)
                    self[b * lanes + l] = metric.self(rows[index[b * lanes + std::min(l, filled - 1)]]);
        }
    }
};

// A (distance, index) pair in 64 bits, which sort as the pair does: the bits of non-negative floats
// are in the order of their values.
inline std::uint64_t key_of(float squared, std::int32_t index) {
    return static_cast<std::uint64_t>(std::bit_cast<std::uint32_t>(squared)) << 32 |
           static_cast<std::uint32_t>(index);
}

// The k smallest (distance, index) pairs seen so far; equal distances are decided by the index.
class Nearest {
  public:
    explicit Nearest(int k) : k_(k), capacity_(k <= 16 ? k : k + std::max(32, k / 4)) {
        keys_.resize(static_cast<std::size_t>(capacity_) + lanes);
    }

    void clear() {
        n_ = 0;
        bound_key_ = ~std::uint64_t{0};
        bound_ = infinity;
    }

    // Squared distances above this cannot be among the k nearest.
    float bound() const { return bound_; }

    // Whether this pair is among the k nearest seen so far.
    bool accepts(float squared, std::int32_t index) const { return key_of(squared, index) < bound_key_; }

    // Takes the pairs of a block whose bit is set in `candidates`.
    void offer(vfloat squared, const std::int32_t* index, std::uint32_t candidates) {
        candidates &= bits(squared <= bound_);
        if (!candidates) return;
        float value[lanes];
        store(value, squared);
        for (; candidates; candidates &= candidates - 1) {
            const int lane = std::countr_zero(candidates);
            const std::uint64_t key = key_of(value[lane], index[lane]);
            if (key < bound_key_) insert(key);
        }
    }

    // Called when a search ends: what was gathered beyond k goes.
    void finish() {
        if (n_ > k_) {
            std::nth_element(keys_.begin(), keys_.begin() + (k_ - 1), keys_.begin() + n_);
            n_ = k_;
        }
    }

    // Writes the pairs in order; places left over (fewer points than k) get index -1.
    void write(float* squared, std::int32_t* index) {
        std::sort(keys_.begin(), keys_.begin() + n_);
        for (int i = 0; i < k_; ++i) {
            squared[i] = i < n_ ? std::bit_cast<float>(static_cast<std::uint32_t>(keys_[i] >> 32)) : infinity;
            index[i] = i < n_ ? static_cast<std::int32_t>(keys_[i]) : -1;
        }
    }

  private:
    void insert(std::uint64_t key) {
        if (k_ <= 16) {  // few: keep them sorted
            int i = n_ < k_ ? n_++ : k_ - 1;
            for (; i > 0 && keys_[i - 1] > key; --i) keys_[i] = keys_[i - 1];
            keys_[i] = key;
            if (n_ == k_) set_bound(keys_[k_ - 1]);
            return;
        }
        keys_[n_++] = key;  // many: let some gather, then keep the k smallest
        if (n_ == capacity_ || (n_ == k_ && bound_ == infinity)) {
            std::nth_element(keys_.begin(), keys_.begin() + (k_ - 1), keys_.begin() + n_);
            n_ = k_;
            set_bound(keys_[k_ - 1]);
        }
    }
    void set_bound(std::uint64_t key) {
        bound_key_ = key;
        bound_ = std::bit_cast<float>(static_cast<std::uint32_t>(key >> 32));
    }

    int k_, capacity_, n_ = 0;
    std::uint64_t bound_key_ = ~std::uint64_t{0};
    float bound_ = infinity;
    AlignedVector<std::uint64_t> keys_;
};

inline constexpr std::uint32_t all_lanes = (1u << lanes) - 1;

// The lanes of block b whose positions lie in [begin, end).
inline std::uint32_t lanes_within(std::int64_t b, std::int64_t begin, std::int64_t end) {
    std::uint32_t mask = all_lanes;
    if (b * lanes < begin) mask &= all_lanes << (begin - b * lanes);
    if ((b + 1) * lanes > end) mask &= all_lanes >> ((b + 1) * lanes - end);
    return mask & all_lanes;
}

struct Neighbourhoods {
    float* squared;
    std::int32_t* index;
};

// Neighbours within a radius: rows of unequal length, one after the other.
struct RadiusNeighbours {
    std::vector<std::int64_t> row_ptr;
    std::vector<float> squared;
    std::vector<std::int32_t> index;
};

class Scan {
  public:
    Scan(Rows rows, const Metric& metric, Team& team);
    void query(const Rows& queries, int k, Neighbourhoods out, Team& team) const;
    RadiusNeighbours query_radius(const Rows& queries, float squared_radius, Team& team) const;

  private:
    Rows rows_;
    Metric metric_;
    std::vector<std::int32_t> order_;
    BlockedPoints points_;
};

// Runs `search(query, row)` for all queries, each row a list of (squared, index) keys, and lays the
// sorted rows end to end.
template <class Search>
RadiusNeighbours collect_radius(std::int64_t n_queries, Team& team, const Search& search) {
    std::vector<std::vector<std::uint64_t>> found(n_queries);
    team.for_each(n_queries, [&](std::int64_t q, int) {
        search(q, found[q]);
        std::sort(found[q].begin(), found[q].end());
    });
    RadiusNeighbours out;
    out.row_ptr.assign(1, 0);
    for (const auto& row : found)
        out.row_ptr.push_back(out.row_ptr.back() + static_cast<std::int64_t>(row.size()));
    out.squared.reserve(out.row_ptr.back());
    out.index.reserve(out.row_ptr.back());
    for (const auto& row : found) {
        team.check();
        for (const std::uint64_t key : row) {
            out.squared.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(key >> 32)));
            out.index.push_back(static_cast<std::int32_t>(key));
        }
    }
    return out;
}

inline void append_within(vfloat squared, float bound, const std::int32_t* index, std::uint32_t mask,
                          std::vector<std::uint64_t>& row) {
    for (mask &= bits(squared <= bound); mask; mask &= mask - 1) {
        const int lane = std::countr_zero(mask);
        row.push_back(key_of(squared[lane], index[lane]));
    }
}

}  // namespace vicinal
