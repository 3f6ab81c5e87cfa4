#include "expansion.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <type_traits>
#include <vector>

namespace vicinal {
namespace {

#if defined(__AVX512F__)
constexpr int blocks_at_once = 2;  // thirty-two registers hold twice as many running sums
#else
constexpr int blocks_at_once = 1;
#endif

// Eight points against one or two blocks, which stand block_size floats apart.
template <int n_blocks>
void products(const float* const* x, const float* blocks, std::int64_t block_size, int d,
              vfloat (*out)[rows_at_once]) {
    vfloat sums[n_blocks][rows_at_once] = {};
    for (int f = 0; f < d; ++f) {
        vfloat z[n_blocks];
        for (int b = 0; b < n_blocks; ++b) z[b] = load(blocks + b * block_size + f * lanes);
        for (int r = 0; r < rows_at_once; ++r)
            for (int b = 0; b < n_blocks; ++b) sums[b][r] += z[b] * x[r][f];
    }
    for (int b = 0; b < n_blocks; ++b)
        for (int r = 0; r < rows_at_once; ++r) out[b][r] = sums[b][r];
}

float squared_length(const float* x, int d) {
    vfloat sums{};
    int f = 0;
    for (; f + lanes <= d; f += lanes) {
        const vfloat v = load(x + f);
        sums += v * v;
    }
    float total = sum(sums);
    for (; f < d; ++f) total += x[f] * x[f];
    return total;
}

}  // namespace

KernelTiles::KernelTiles(const Rows& vectors, const Kernel& kernel)
    : n_vectors_(static_cast<int>(vectors.n)),
      d_(vectors.d),
      stride_(padded(n_vectors_)),
      kernel_(kernel),
      blocks_(static_cast<std::size_t>(stride_) * d_),
      squares_(stride_) {
    std::vector<std::int32_t> all(n_vectors_);
    std::iota(all.begin(), all.end(), 0);
    gather(vectors, all.data(), n_vectors_, blocks_.data());
    for (int j = 0; j < stride_; ++j) squares_[j] = squared_length(vectors[std::min(j, n_vectors_ - 1)], d_);
}

void KernelTiles::fill(const Rows& points, std::int64_t begin, std::int64_t end, float* tile) const {
    const bool by_distance = kernel_.kind == KernelKind::rbf;
    const auto n = static_cast<int>(end - begin);
    const float* x[tile_rows];
    float length[tile_rows];
    // Missing points are the last one again, so that every point is computed in the same way.
    for (int r = 0; r < (n + rows_at_once - 1) / rows_at_once * rows_at_once; ++r) {
        x[r] = points[begin + std::min(r, n - 1)];
        length[r] = by_distance ? squared_length(x[r], d_) : 0.0f;
    }
    const std::int64_t block_size = static_cast<std::int64_t>(d_) * lanes;
    const auto meet = [&](int b, auto count) {
        constexpr int n_blocks = decltype(count)::value;
        for (int r = 0; r < n; r += rows_at_once) {
            vfloat found[n_blocks][rows_at_once];
            products<n_blocks>(x + r, blocks_.data() + b * block_size, block_size, d_, found);
            for (int c = 0; c < n_blocks; ++c) {
                const vfloat squares = load(squares_.data() + (b + c) * lanes);
                for (int i = 0; i < rows_at_once; ++i) {
                    vfloat t = found[c][i];
                    if (by_distance) t = max(squares + length[r + i] - 2.0f * t, vfloat{});
                    store(tile + static_cast<std::int64_t>(r + i) * stride_ + (b + c) * lanes, kernel_(t));
                }
            }
        }
    };
    int b = 0;
    for (; b + blocks_at_once <= stride_ / lanes; b += blocks_at_once)
        meet(b, std::integral_constant<int, blocks_at_once>{});
    for (; b < stride_ / lanes; ++b) meet(b, std::integral_constant<int, 1>{});
}

void KernelTiles::values(const Rows& points, float* out, Team& team) const {
    PerMember<AlignedVector<float>> tiles(team);
    for_ranges(team, points.n, tile_rows, [&](std::int64_t begin, std::int64_t end, int member) {
        AlignedVector<float>& tile = tiles[member];
        tile.resize(static_cast<std::size_t>(tile_rows) * stride_);
        fill(points, begin, end, tile.data());
        for (std::int64_t i = begin; i < end; ++i)
            std::memcpy(out + i * n_vectors_, tile.data() + (i - begin) * stride_,
                        sizeof(float) * n_vectors_);
    });
}

void KernelTiles::weighted_sums(const Rows& points, const double* coef, const double* bias, int n_outputs,
                                double* out, Team& team) const {
    constexpr int outputs_at_once = 4;
    const int width = (n_outputs + outputs_at_once - 1) / outputs_at_once * outputs_at_once;
    AlignedVector<float> columns(static_cast<std::size_t>(width) * stride_);
    std::fill(columns.begin(), columns.end(), 0.0f);
    for (int j = 0; j < n_vectors_; ++j)
        for (int k = 0; k < n_outputs; ++k)
            columns[static_cast<std::size_t>(k) * stride_ + j] =
                static_cast<float>(coef[static_cast<std::int64_t>(j) * n_outputs + k]);

    PerMember<AlignedVector<float>> tiles(team);
    for_ranges(team, points.n, tile_rows, [&](std::int64_t begin, std::int64_t end, int member) {
        AlignedVector<float>& tile = tiles[member];
        tile.resize(static_cast<std::size_t>(tile_rows) * stride_);
        fill(points, begin, end, tile.data());
        for (std::int64_t i = begin; i < end; ++i) {
            const float* values = tile.data() + (i - begin) * stride_;
            for (int k = 0; k < n_outputs; k += outputs_at_once) {
                vfloat sums[outputs_at_once] = {};
                const float* column = columns.data() + static_cast<std::int64_t>(k) * stride_;
                for (int j = 0; j < stride_; j += lanes) {
                    const vfloat value = load(values + j);
                    for (int c = 0; c < outputs_at_once; ++c)
                        sums[c] += value * load(column + static_cast<std::int64_t>(c) * stride_ + j);
                }
                for (int c = 0; c < std::min(outputs_at_once, n_outputs - k); ++c)
                    out[i * n_outputs + k + c] = bias[k + c] + static_cast<double>(sum(sums[c]));
            }
        }
    });
}

}  // namespace vicinal
