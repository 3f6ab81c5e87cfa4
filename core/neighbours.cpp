#include "neighbours.hpp"

#include <algorithm>
#include <numeric>

namespace vicinal {

Scan::Scan(Rows rows, const Metric& metric, Team& team) : rows_(rows), metric_(metric) {
    order_.resize(padded(static_cast<int>(rows.n)));
    std::iota(order_.begin(), order_.end(), 0);
    points_.assign(rows_, order_.data(), rows_.n, metric_, team);
}

void Scan::query(const Rows& queries, int k, Neighbourhoods out, Team& team) const {
    // A chunk of blocks stays in the second-level cache while a group of queries passes over it.
    const std::int64_t chunk = std::max<std::int64_t>(1, 256 * 1024 / (std::int64_t{4} * lanes * metric_.d));
    const int group = static_cast<int>(std::clamp<std::int64_t>(queries.n, 1, 4 * rows_at_once));
    PerMember<std::vector<Nearest>> nearest(team, std::vector<Nearest>(group, Nearest(k)));
    for_ranges(team, queries.n, group, [&](std::int64_t begin, std::int64_t end, int member) {
        auto& best = nearest[member];
        for (auto& list : best) list.clear();
        for (std::int64_t first = 0; first < n_blocks(rows_.n); first += chunk) {
            team.check();
            const std::int64_t last = std::min(n_blocks(rows_.n), first + chunk);
            for (std::int64_t q0 = begin; q0 < end; q0 += rows_at_once) {
                const int n_here = static_cast<int>(std::min<std::int64_t>(rows_at_once, end - q0));
                const float* x[rows_at_once];
                double self[rows_at_once];
                for (int q = 0; q < rows_at_once; ++q) {
                    x[q] = queries[q0 + std::min(q, n_here - 1)];
                    self[q] = metric_.self(x[q]);
                }
                for (std::int64_t b = first; b < last; ++b) {
                    vfloat squared[rows_at_once];
                    if (metric_.kernel.euclidean())
                        squared_distances(x, points_.block(b), metric_.d, squared);
                    else
                        for (int q = 0; q < n_here; ++q)
                            squared[q] =
                                metric_.squared(x[q], self[q], points_.block(b), points_.block_self(b));
                    const std::uint32_t mask = lanes_within(b, 0, rows_.n);
                    for (int q = 0; q < n_here; ++q)
                        best[q0 - begin + q].offer(squared[q], &order_[b * lanes], mask);
                }
            }
        }
        for (std::int64_t q = begin; q < end; ++q) {
            best[q - begin].finish();
            best[q - begin].write(out.squared + q * k, out.index + q * k);
        }
    });
}

RadiusNeighbours Scan::query_radius(const Rows& queries, float squared_radius, Team& team) const {
    return collect_radius(queries.n, team, [&](std::int64_t q, std::vector<std::uint64_t>& row) {
        const float* x = queries[q];
        const double self = metric_.self(x);
        for (std::int64_t b = 0; b < n_blocks(rows_.n); ++b) {
            if (b % 1024 == 0) team.check();
            append_within(metric_.squared(x, self, points_.block(b), points_.block_self(b)), squared_radius,
                          &order_[b * lanes], lanes_within(b, 0, rows_.n), row);
        }
    });
}

}  // namespace vicinal
