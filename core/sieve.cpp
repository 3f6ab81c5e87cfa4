#include "sieve.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace vicinal {

namespace {

// The rows of an image's block that are looked at first: seven axes and what lies off all of them.
constexpr int half = lanes / 2, off = half - 1;

// Squared distances in some of the coordinates, added to those in others.
vfloat plus_squares(vfloat sum, const float* x, const float* block, int first, int last) {
    for (int row = first; row < last; ++row) {
        const vfloat apart = load(block + row * lanes) - x[row];
        sum += apart * apart;
    }
    return sum;
}

// A leaf of a k-d tree over the images holds sixteen points: near ones share a block.
void put_near_ones_together(std::vector<std::int32_t>& order, std::int64_t begin, std::int64_t end,
                            const std::vector<float>& at) {
    if (end - begin <= lanes) return;
    int widest = 0;
    float spread = -1.0f;
    for (int row = 0; row < half; ++row) {
        float low = infinity, high = -infinity;
        for (std::int64_t i = begin; i < end; ++i) {
            const float x = at[static_cast<std::size_t>(order[i]) * lanes + row];
            low = std::min(low, x);
            high = std::max(high, x);
        }
        if (high - low > spread) {
            spread = high - low;
            widest = row;
        }
    }
    const std::int64_t middle = begin + padded(static_cast<int>((end - begin) / 2));
    std::nth_element(order.begin() + begin, order.begin() + middle, order.begin() + end,
                     [&](std::int32_t a, std::int32_t b) {
                         const float x = at[static_cast<std::size_t>(a) * lanes + widest],
                                     y = at[static_cast<std::size_t>(b) * lanes + widest];
                         return x < y || (x == y && a < b);
                     });
    put_near_ones_together(order, begin, middle, at);
    put_near_ones_together(order, middle, end, at);
}

}  // namespace

Sieve::Sieve(Rows rows, const double* axes, const double* origin, Team& team)
    : rows_(rows), axes_(static_cast<std::size_t>(rows.d) * lanes), origin_(origin, origin + rows.d) {
    // Feature by feature; the place between the seventh axis and the eighth belongs to none.
    for (int a = 0; a < n_axes; ++a)
        for (int f = 0; f < rows.d; ++f)
            axes_[static_cast<std::size_t>(f) * lanes + (a < off ? a : a + 1)] =
                axes[static_cast<std::size_t>(a) * rows.d + f];
    std::vector<float> at(static_cast<std::size_t>(rows.n) * lanes);
    std::vector<double> lengths(rows.n);
    for_ranges(team, rows.n, 1024, [&](std::int64_t begin, std::int64_t end, int) {
        for (std::int64_t i = begin; i < end; ++i) {
            const Image found = image(rows[i]);
            std::copy_n(found.at, lanes, &at[static_cast<std::size_t>(i) * lanes]);
            lengths[i] = found.length;
        }
    });
    farthest_ = *std::max_element(lengths.begin(), lengths.end());
    order_.resize(padded(static_cast<int>(rows.n)));
    std::iota(order_.begin(), order_.end(), 0);
    put_near_ones_together(order_, 0, rows.n, at);
    points_.assign(rows_, order_.data(), rows_.n, Metric{Kernel{}, rows.d}, team);
    images_.resize(order_.size() * lanes);
    gather(Rows{at.data(), rows.n, lanes}, order_.data(), rows.n, images_.data());
}

Sieve::Image Sieve::image(const float* x) const {
    double sums[lanes] = {}, square = 0.0;
    for (int f = 0; f < rows_.d; ++f) {
        const double apart = x[f] - origin_[f];
        const double* along = &axes_[static_cast<std::size_t>(f) * lanes];
        for (int a = 0; a < lanes; ++a) sums[a] += along[a] * apart;
        square += apart * apart;
    }
    double off_axes = square;
    Image out;
    for (int a = 0; a < lanes; ++a) {
        off_axes -= sums[a] * sums[a];
        out.at[a] = static_cast<float>(sums[a]);
    }
    out.at[off] = static_cast<float>(std::sqrt(std::max(0.0, off_axes)));
    out.length = std::sqrt(square);
    return out;
}

// The bounds of several queries for all points by half of the coordinates, which are read once for
// all of them, and the block of the least one of each.
void Sieve::first_bounds(const Image* images, int n, float* bounds, std::int64_t* least_block) const {
    const std::int64_t n_blocks = vicinal::n_blocks(rows_.n);
    vfloat least[rows_at_once];
    vint where[rows_at_once] = {};
    std::fill_n(least, rows_at_once, splat(infinity));
    for (std::int64_t b = 0; b < n_blocks; ++b) {
        vfloat sums[rows_at_once] = {};
        for (int row = 0; row < half; ++row) {
            const vfloat at = load(&images_[(b * lanes + row) * lanes]);
            for (int q = 0; q < rows_at_once; ++q) {
                const vfloat apart = at - images[q].at[row];
                sums[q] += apart * apart;
            }
        }
        for (int q = 0; q < rows_at_once; ++q) {
            where[q] = select(sums[q] < least[q], splat(static_cast<std::int32_t>(b)), where[q]);
            least[q] = min(sums[q], least[q]);
            store(bounds + (q * n_blocks + b) * lanes, sums[q]);
        }
    }
    for (int q = 0; q < n; ++q) {
        int lane = 0;
        for (int l = 1; l < lanes; ++l)
            if (least[q][l] < least[q][lane]) lane = l;
        least_block[q] = where[q][lane];
    }
}

void Sieve::query(const Rows& queries, float* squared, std::int32_t* index, Team& team) const {
    const std::int64_t n_blocks = vicinal::n_blocks(rows_.n);
    struct Workspace {
        Nearest nearest{1};
        AlignedVector<float> bounds;
    };
    PerMember<Workspace> workspace(team);
    for_ranges(team, queries.n, rows_at_once, [&](std::int64_t begin, std::int64_t end, int member) {
        auto& [nearest, bounds] = workspace[member];
        bounds.resize(static_cast<std::size_t>(n_blocks) * lanes * rows_at_once);
        Image images[rows_at_once];
        std::int64_t first[rows_at_once];
        for (int q = 0; q < rows_at_once; ++q) images[q] = image(queries[std::min(begin + q, end - 1)]);
        first_bounds(images, static_cast<int>(end - begin), bounds.data(), first);
        for (std::int64_t q = begin; q < end; ++q) {
            team.check();
            const Image& own = images[q - begin];
            const float* x = queries[q];
            // Rounding of images and of their distances; of the distances themselves.
            const double error = 4e-6 * (own.length + farthest_);
            float limit = infinity;
            const auto measure = [&](std::int64_t b) {
                nearest.offer(squared_distances(x, points_.block(b), rows_.d), &order_[b * lanes],
                              lanes_within(b, 0, rows_.n));
                const double reach =
                    std::sqrt(static_cast<double>(nearest.bound())) * (1.0 + 1e-6 * (rows_.d + 16)) + error;
                limit = static_cast<float>(std::min(reach * reach, 3e38));
            };
            nearest.clear();
            measure(first[q - begin]);
            for (std::int64_t b = 0; b < n_blocks; ++b) {
                const vfloat bound = load(&bounds[((q - begin) * n_blocks + b) * lanes]);
                if (!bits(bound <= splat(limit)) || b == first[q - begin]) continue;
                const vfloat all = plus_squares(bound, own.at, &images_[b * lanes * lanes], half, lanes);
                if (bits(all <= splat(limit))) measure(b);
            }
            nearest.finish();
            nearest.write(squared + q, index + q);
        }
    });
}

}  // namespace vicinal
