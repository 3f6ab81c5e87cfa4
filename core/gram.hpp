// The kernel matrix of a neighbourhood: all of it in memory, or its rows on demand.
//
// Cost of a tile of k points: k^2/2 distances of d features (half of the matrix; the other half is its
// mirror image) and as many exponentials, k^2 floats of memory.
#pragma once

#include <algorithm>
#include <vector>

#include "points.hpp"
#include "smo.hpp"

namespace vicinal {

// The points of one neighbourhood, copied together.
struct LocalPoints {
    Rows rows;
    const std::int32_t* index = nullptr;
    int k = 0;
    AlignedVector<float> blocks;

    void gather_from(const Rows& all, const std::int32_t* neighbourhood, int size) {
        rows = all;
        index = neighbourhood;
        k = size;
        blocks.resize(static_cast<std::size_t>(padded(k)) * all.d);
        gather(all, neighbourhood, k, blocks.data());
    }
    const float* operator[](int i) const { return rows[index[i]]; }
    const float* block(int b) const { return blocks.data() + static_cast<std::int64_t>(b) * lanes * rows.d; }
};

// What a kernel is made of: squared distances for rbf, dot products for the others.
inline vfloat ingredients(const Kernel& kernel, const float* x, const float* block, int d) {
    return kernel.kind == KernelKind::rbf ? squared_distances(x, block, d) : dot_products(x, block, d);
}
inline void ingredients(const Kernel& kernel, const float* const* x, const float* block, int d, vfloat* out) {
    kernel.kind == KernelKind::rbf ? squared_distances(x, block, d, out) : dot_products(x, block, d, out);
}

// Calls put(i, b, values) for the blocks of sixteen rows from `first` on, on and right of the diagonal.
template <class Put>
void upper_strip(const LocalPoints& points, const Kernel& kernel, int first, const Put& put) {
    static_assert(lanes % rows_at_once == 0);
    for (int i = first; i < std::min(first + lanes, points.k); i += rows_at_once) {
        const float* x[rows_at_once];
        for (int r = 0; r < rows_at_once; ++r) x[r] = points[std::min(i + r, points.k - 1)];
        for (int b = first / lanes; b < padded(points.k) / lanes; ++b) {
            vfloat values[rows_at_once];
            ingredients(kernel, x, points.block(b), points.rows.d, values);
            for (int r = 0; r < rows_at_once && i + r < points.k; ++r) put(i + r, b, values[r]);
        }
    }
}

// Copies the blocks of that strip right of the diagonal to their mirror images, best while the strip is
// in the cache.
inline void mirror_strip(float* tile, int first, int k, int stride) {
    for (int j = first + lanes; j < k; j += lanes) {
        vfloat row[lanes];
        for (int r = 0; r < lanes; ++r)
            row[r] = load(tile + static_cast<std::int64_t>(first + r) * stride + j);
        transpose(row);
        for (int r = 0; r < lanes && j + r < k; ++r)
            store(tile + static_cast<std::int64_t>(j + r) * stride + first, row[r]);
    }
}

inline void gram_tile(const LocalPoints& points, const Kernel& kernel, float* tile, Team& team) {
    const int stride = padded(points.k);
    for (int first = 0; first < points.k; first += lanes) {
        team.check();
        upper_strip(points, kernel, first, [&](int i, int b, vfloat v) {
            store(tile + static_cast<std::int64_t>(i) * stride + b * lanes, kernel(v));
        });
        mirror_strip(tile, first, points.k, stride);
    }
}

// The same from ingredients kept from before: one exponential for each width tried.
inline void ingredients_tile(const LocalPoints& points, const Kernel& kernel, float* tile, Team& team) {
    const int stride = padded(points.k);
    for (int first = 0; first < points.k; first += lanes) {
        team.check();
        upper_strip(points, kernel, first, [&](int i, int b, vfloat v) {
            store(tile + static_cast<std::int64_t>(i) * stride + b * lanes, v);
        });
    }
}
inline void gram_tile_from(const float* ingredients, int k, const Kernel& kernel, float* tile) {
    const int stride = padded(k);
    for (int first = 0; first < k; first += lanes) {
        for (int i = first; i < std::min(first + lanes, k); ++i)
            for (int at = first; at < stride; at += lanes) {
                const std::int64_t place = static_cast<std::int64_t>(i) * stride + at;
                store(tile + place, kernel(load(ingredients + place)));
            }
        mirror_strip(tile, first, k, stride);
    }
}

// 1 / (a percentile of the squared distances between distinct points). From all pairs of a small
// neighbourhood; from about four thousand pairs of a large one: points at equal steps of its order, each
// with one block of sixteen, all blocks in turn.
inline double local_gamma(const LocalPoints& points, double percentile, std::vector<float>& sample) {
    constexpr int small = 91, rows = 256;
    constexpr std::uint64_t golden =
        1327217885;  // 2^31 times the golden ratio: r golden mod 2^31 spreads evenly
    const int k = points.k, n_blocks = padded(k) / lanes;
    sample.clear();
    const auto take = [&](int i, int b, int first) {
        float squared[lanes];
        store(squared, squared_distances(points[i], points.block(b), points.rows.d));
        for (int j = std::max(first, b * lanes); j < std::min(k, (b + 1) * lanes); ++j)
            if (squared[j - b * lanes] > 0) sample.push_back(squared[j - b * lanes]);
    };
    if (k <= small)
        for (int i = 0; i < k; ++i)
            for (int b = i / lanes; b < n_blocks; ++b) take(i, b, i + 1);
    else
        for (int r = 0; r < rows; ++r)
            take(static_cast<int>((2 * r + 1) * static_cast<std::int64_t>(k) / (2 * rows)),
                 static_cast<int>((r * golden % (1u << 31)) * n_blocks >> 31), 0);
    if (sample.empty()) return 1.0;  // all points are equal: any width will do
    const auto place =
        static_cast<std::size_t>(percentile / 100.0 * static_cast<double>(sample.size() - 1) + 0.5);
    std::nth_element(sample.begin(), sample.begin() + place, sample.end());
    return std::min(1.0 / sample[place], 1e30);  // a float, also for the closest of points
}

// Rows on demand, the least recently used one making room for the next.
class CachedGram final : public GramRows {
  public:
    CachedGram(const LocalPoints& points, const Kernel& kernel, std::int64_t bytes, Team& team)
        : points_(points), kernel_(kernel), team_(team), stride_(padded(points.k)) {
        const std::int64_t fit = bytes / (static_cast<std::int64_t>(stride_) * 4);
        n_slots_ = static_cast<int>(std::max<std::int64_t>(4, std::min<std::int64_t>(fit, points.k)));
        slot_of_.assign(points.k, -1);
        row_in_.assign(n_slots_, -1);
        used_.assign(n_slots_, 0);
        data_.resize(static_cast<std::size_t>(n_slots_) * stride_);
    }

    const float* row(int i) override {
        int slot = slot_of_[i];
        if (slot < 0) {
            slot = n_used_ < n_slots_
                       ? n_used_++
                       : static_cast<int>(std::min_element(used_.begin(), used_.end()) - used_.begin());
            if (row_in_[slot] >= 0) slot_of_[row_in_[slot]] = -1;
            row_in_[slot] = i;
            slot_of_[i] = slot;
            compute(i, data_.data() + static_cast<std::int64_t>(slot) * stride_);
        }
        used_[slot] = ++clock_;
        return data_.data() + static_cast<std::int64_t>(slot) * stride_;
    }

    float diagonal(int i) override {
        if (kernel_.kind == KernelKind::rbf) return 1.0f;
        const float* x = points_[i];
        double dot = 0.0;
        for (int f = 0; f < points_.rows.d; ++f) dot += static_cast<double>(x[f]) * x[f];
        return static_cast<float>(kernel_.from_dot(dot));
    }

    void part(const std::vector<int>& members, float* out) override {
        std::vector<std::int32_t> index;
        for (const int i : members) index.push_back(points_.index[i]);
        part_points_.gather_from(points_.rows, index.data(), static_cast<int>(index.size()));
        gram_tile(part_points_, kernel_, out, team_);
    }

  private:
    void compute(int i, float* out) {
        team_.check();
        for (int b = 0; b < stride_ / lanes; ++b)
            store(out + b * lanes,
                  kernel_(ingredients(kernel_, points_[i], points_.block(b), points_.rows.d)));
    }

    const LocalPoints& points_;
    Kernel kernel_;
    Team& team_;
    int stride_, n_slots_, n_used_ = 0;
    std::vector<int> slot_of_, row_in_;
    std::vector<std::int64_t> used_;
    std::int64_t clock_ = 0;
    AlignedVector<float> data_;
    LocalPoints part_points_;
};

}  // namespace vicinal
