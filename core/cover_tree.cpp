#include "cover_tree.hpp"

#include <cmath>
#include <numeric>
#include <utility>

namespace vicinal {

namespace {

constexpr int leaf_size = 32;

// base^level, in the precision of the distances that it is compared with: were it finer in one place
// than in another, a cell whose radius is a rounded power would be divided into itself for ever.
float reach_of(int level, double base) { return static_cast<float>(std::pow(base, level)); }

// The largest level i with base^i < radius: at least one point of the cell is then not covered by its
// centre, so no level is visited in vain.
int level_below(float radius, double base) {
    int i = static_cast<int>(std::ceil(std::log(static_cast<double>(radius)) / std::log(base))) - 1;
    while (reach_of(i, base) >= radius) --i;
    while (reach_of(i + 1, base) < radius) ++i;
    return i;
}

// The farthest point from the children chosen so far; the lowest index where there are several.
struct Farthest {
    float distance = -1.0f;
    std::int32_t point = 0;
    void offer(const Farthest& other) {
        if (other.distance > distance || (other.distance == distance && other.point < point)) *this = other;
    }
};

class Builder {
  public:
    Builder(const Rows& rows, const Metric& metric, CoverTree::State& state, Team& team)
        : rows_(rows), metric_(metric), s_(state), team_(team), distance_(rows.n) {}

    void run() {
        const auto n = static_cast<std::int32_t>(rows_.n);
        s_.order.resize(n);
        std::iota(s_.order.begin(), s_.order.end(), 0);
        s_.levels.assign(n, CoverTree::duplicate);
        s_.parents.assign(n, -1);

        Scratch everything;
        const std::int32_t root = 0;
        everything.blocks.assign(rows_, s_.order.data(), n, metric_, team_);
        const Farthest far = measure(everything, 0, n, root, team_);
        s_.cells.push_back({root, 0, n, 0, 0, far.distance});
        s_.levels[root] = far.distance > 0 ? level_below(far.distance, s_.base) + 1 : 0;

        // Large cells one after the other, all threads in each; then the rest, one cell a thread.
        // Where that changes does not depend on the number of threads, nor does any result.
        const std::int32_t large = std::max<std::int32_t>(4096, n / 32);
        std::vector<std::int32_t> small;
        for (std::size_t c = 0; c < s_.cells.size(); ++c) {
            if (s_.cells[c].end - s_.cells[c].begin <= large)
                small.push_back(static_cast<std::int32_t>(c));
            else
                split(static_cast<std::int32_t>(c), s_.cells, everything, &team_);
        }
        everything = {};
        std::ranges::stable_sort(small, std::greater{},
                                 [&](auto c) { return s_.cells[c].end - s_.cells[c].begin; });
        PerMember<Scratch> scratch(team_);
        std::vector<std::vector<CoverTree::Cell>> below(small.size());
        team_.for_each(static_cast<std::int64_t>(small.size()), [&](std::int64_t i, int member) {
            auto& cells = below[i];
            cells.push_back(s_.cells[small[i]]);
            for (std::size_t c = 0; c < cells.size(); ++c) {
                split(static_cast<std::int32_t>(c), cells, scratch[member], nullptr);
            }
        });
        for (std::size_t i = 0; i < small.size(); ++i) {  // hang each subtree under its cell
            const auto offset = static_cast<std::int32_t>(s_.cells.size()) - 1;
            for (auto& cell : below[i])
                if (cell.n_children) cell.first_child += offset;
            s_.cells[small[i]] = below[i][0];
            s_.cells.insert(s_.cells.end(), below[i].begin() + 1, below[i].end());
        }
    }

  private:
    struct Scratch {
        BlockedPoints blocks;
        AlignedVector<float> distance;  // to the nearest child so far
        AlignedVector<std::int32_t> owner;
        std::vector<std::int32_t> children, count;
        std::vector<float> radius;
        std::vector<Farthest> far;
        AlignedVector<std::int32_t> order;
        AlignedVector<float> moved;
        std::vector<CoverTree::Cell> stack;
    };

    // Distances from the point `centre` to the points at [begin, end), which `s.blocks` holds.
    Farthest measure(Scratch& s, std::int32_t begin, std::int32_t end, std::int32_t centre, Team& team) {
        PerMember<Farthest> found(team);
        const double self = metric_.self(rows_[centre]);
        for_ranges(team, n_blocks(end - begin), 1024, [&](std::int64_t b0, std::int64_t b1, int member) {
            for (std::int64_t b = b0; b < b1; ++b) {
                const vfloat dist =
                    sqrt(metric_.squared(rows_[centre], self, s.blocks.block(b), s.blocks.block_self(b)));
                for (std::int32_t i = begin + b * lanes;
                     i < std::min<std::int64_t>(end, begin + (b + 1) * lanes); ++i) {
                    distance_[i] = dist[i - begin - b * lanes];
                    found[member].offer({distance_[i], s_.order[i]});
                }
            }
        });
        Farthest far;
        for (const Farthest& f : found) far.offer(f);
        return far;
    }

    // Lets the new child `centre` take the points in blocks [b0, b1) that are nearer to it than to
    // their child so far, and returns the farthest point from all children.
    Farthest take(Scratch& s, std::int32_t begin, std::int32_t n, std::int64_t b0, std::int64_t b1,
                  std::int32_t centre, double self, std::int32_t child) {
        vfloat best = splat(-1.0f);
        vint best_block = splat(std::int32_t{0});
        for (std::int64_t b = b0; b < b1; ++b) {
            float* distance = &s.distance[b * lanes];
            std::int32_t* owner = &s.owner[b * lanes];
            const vfloat old = load(distance);
            const vfloat now =
                sqrt(metric_.squared(rows_[centre], self, s.blocks.block(b), s.blocks.block_self(b)));
            const vint nearer = now < old;
            const vfloat nearest = select(nearer, now, old);
            store(distance, nearest);
            vint owners;
            std::memcpy(&owners, owner, sizeof owners);
            owners = select(nearer, splat(child), owners);
            std::memcpy(owner, &owners, sizeof owners);
            const vint farther = nearest > best;
            best = select(farther, nearest, best);
            best_block = select(farther, splat(static_cast<std::int32_t>(b)), best_block);
        }
        Farthest far;
        for (int l = 0; l < lanes; ++l) {
            const std::int32_t i = best_block[l] * lanes + l;
            if (best[l] >= 0 && i < n) far.offer({best[l], s_.order[begin + i]});
        }
        return far;
    }

    // Splits a cell among children, which are appended to `cells`. A cell of at most `leaf_size` points
    // gets none: it stays a leaf, and only the levels and parents inside it are found.
    void split(std::int32_t c, std::vector<CoverTree::Cell>& cells, Scratch& s, Team* team) {
        const CoverTree::Cell cell = cells[c];
        if (single(cell)) return settle_duplicates(cell);
        if (cell.end - cell.begin > leaf_size) {
            const auto first = static_cast<std::int32_t>(cells.size());
            divide(cell, s, team, cells);
            cells[c].first_child = first;
            cells[c].n_children = static_cast<std::int32_t>(cells.size()) - first;
            return;
        }
        s.stack.assign(1, cell);
        while (!s.stack.empty()) {
            const CoverTree::Cell part = s.stack.back();
            s.stack.pop_back();
            if (single(part))
                settle_duplicates(part);
            else
                divide(part, s, nullptr, s.stack);
        }
    }

    static bool single(const CoverTree::Cell& cell) { return cell.radius == 0 || cell.end - cell.begin == 1; }

    // All points of the cell are its centre's twins. They stand in ascending order, as all splits are
    // stable, so that a search for the k nearest may stop after k of them.
    void settle_duplicates(const CoverTree::Cell& cell) {
        for (std::int32_t i = cell.begin; i < cell.end; ++i)
            if (s_.order[i] != cell.centre) s_.parents[s_.order[i]] = cell.centre;
    }

    void divide(const CoverTree::Cell cell, Scratch& s, Team* team, std::vector<CoverTree::Cell>& out) {
        const std::int32_t begin = cell.begin, n = cell.end - cell.begin;
        const int level = level_below(cell.radius, s_.base);
        const float reach = reach_of(level, s_.base);
        const std::int64_t blocks = n_blocks(n);
        if (team)
            s.blocks.assign(rows_, &s_.order[begin], n, metric_, *team);
        else
            s.blocks.assign(rows_, &s_.order[begin], n, metric_);
        s.distance.resize(blocks * lanes);
        s.owner.resize(blocks * lanes);
        s.children.assign(1, cell.centre);

        // Passes over all points of the cell go range by range, on all threads where there is a team.
        constexpr std::int32_t grain = 1 << 16;
        const std::int32_t n_ranges = (n + grain - 1) / grain;
        const auto for_each_range = [&](const auto& body) {
            const auto one = [&](std::int64_t range, int) {
                body(static_cast<std::int32_t>(range * grain),
                     static_cast<std::int32_t>(std::min<std::int64_t>(n, (range + 1) * grain)), range);
            };
            if (team)
                team->for_each(n_ranges, one);
            else
                for (std::int32_t range = 0; range < n_ranges; ++range) one(range, 0);
        };

        s.far.assign(n_ranges, {});
        for_each_range([&](std::int32_t i0, std::int32_t i1, std::int64_t range) {
            for (std::int32_t i = i0; i < i1; ++i) {
                s.distance[i] = distance_[begin + i];
                s.owner[i] = 0;
                s.far[range].offer({s.distance[i], s_.order[begin + i]});
            }
        });
        for (std::int64_t i = n; i < blocks * lanes; ++i) {
            s.distance[i] = -1.0f;  // nothing is nearer than that to the rest of the last block
            s.owner[i] = 0;
        }
        Farthest far;
        for (const auto& f : s.far) far.offer(f);
        while (far.distance > reach) {
            team_.check();
            const std::int32_t centre = far.point;
            const auto child = static_cast<std::int32_t>(s.children.size());
            const double self = metric_.self(rows_[centre]);
            s.children.push_back(centre);
            s_.levels[centre] = level;
            s_.parents[centre] = cell.centre;
            if (team) {
                PerMember<Farthest> found(*team);
                for_ranges(*team, blocks, std::max<std::int64_t>(256, blocks / (4 * team->size())),
                           [&](std::int64_t b0, std::int64_t b1, int member) {
                               found[member].offer(take(s, begin, n, b0, b1, centre, self, child));
                           });
                far = {};
                for (const Farthest& f : found) far.offer(f);
            } else {
                far = take(s, begin, n, 0, blocks, centre, self, child);
            }
        }

        // Points move next to their child, in stable order: count[range, child] becomes the place of
        // the first point of that range that goes to that child.
        const auto n_children = static_cast<std::int32_t>(s.children.size());
        s.count.assign(static_cast<std::size_t>(n_ranges) * n_children, 0);
        s.radius.assign(s.count.size(), 0.0f);
        for_each_range([&](std::int32_t i0, std::int32_t i1, std::int64_t range) {
            std::int32_t* count = &s.count[range * n_children];
            float* radius = &s.radius[range * n_children];
            for (std::int32_t i = i0; i < i1; ++i) {
                ++count[s.owner[i]];
                radius[s.owner[i]] = std::max(radius[s.owner[i]], s.distance[i]);
            }
        });
        std::int32_t place = 0;
        for (std::int32_t j = 0; j < n_children; ++j) {
            CoverTree::Cell child{s.children[j], begin + place, 0, 0, 0, 0.0f};
            for (std::int32_t range = 0; range < n_ranges; ++range) {
                const std::size_t at = static_cast<std::size_t>(range) * n_children + j;
                child.radius = std::max(child.radius, s.radius[at]);
                place += std::exchange(s.count[at], place);
            }
            child.end = begin + place;
            out.push_back(child);
        }
        s.order.resize(n);
        s.moved.resize(n);
        for_each_range([&](std::int32_t i0, std::int32_t i1, std::int64_t range) {
            std::int32_t* next = &s.count[range * n_children];
            for (std::int32_t i = i0; i < i1; ++i) {
                const std::int32_t to = next[s.owner[i]]++;
                s.order[to] = s_.order[begin + i];
                s.moved[to] = s.distance[i];
            }
        });
        for_each_range([&](std::int32_t i0, std::int32_t i1, std::int64_t) {
            std::copy(&s.order[i0], &s.order[0] + i1, &s_.order[begin + i0]);
            std::copy(&s.moved[i0], &s.moved[0] + i1, &distance_[begin + i0]);
        });
    }

    const Rows& rows_;
    const Metric& metric_;
    CoverTree::State& s_;
    Team& team_;
    std::vector<float> distance_;  // by position: to the centre of its cell
};

}  // namespace

namespace {

double choose_base(const Rows& rows, const Metric& metric, Team& team) {
    // Farthest-first on a sample: how fast the covering radius falls with the number of children.
    const std::int64_t n = std::min<std::int64_t>(rows.n, 1024);
    std::vector<std::int32_t> sample(n);
    for (std::int64_t i = 0; i < n; ++i) sample[i] = static_cast<std::int32_t>(i * rows.n / n);
    std::vector<float> distance(n, infinity);
    std::vector<float> block(static_cast<std::size_t>(lanes) * rows.d);
    constexpr int few = 4, many = 64;
    float radius[many + 1] = {};
    std::int32_t centre = sample[0];
    for (int m = 0; m <= many; ++m) {
        team.check();
        Farthest far;
        for (std::int64_t b = 0; b < n; b += lanes) {
            const int filled = static_cast<int>(std::min<std::int64_t>(lanes, n - b));
            gather_block(rows, &sample[b], filled, block.data());
            double self[lanes];
            for (int l = 0; l < filled; ++l) self[l] = metric.self(rows[sample[b + l]]);
            for (int l = filled; l < lanes; ++l) self[l] = self[0];
            const vfloat d =
                sqrt(metric.squared(rows[centre], metric.self(rows[centre]), block.data(), self));
            for (int l = 0; l < filled; ++l) {
                distance[b + l] = std::min(distance[b + l], static_cast<float>(d[l]));
                far.offer({distance[b + l], sample[b + l]});
            }
        }
        radius[m] = far.distance;
        centre = far.point;
    }
    if (!(radius[many] > 0)) return 2.0;
    // radius ~ children^(-1/D): the base at which a cell has eight children is 8^(1/D).
    const double inverse_dimension =
        std::log(radius[few] / radius[many]) / std::log(static_cast<double>(many) / few);
    return std::clamp(std::pow(8.0, inverse_dimension), 1.05, 4.0);
}

}  // namespace

CoverTree::CoverTree(Rows rows, const Metric& metric, double base, Team& team)
    : rows_(rows), metric_(metric) {
    state_.base = base > 1 ? base : choose_base(rows, metric, team);
    Builder(rows_, metric_, state_, team).run();
    prepare(team);
}

CoverTree::CoverTree(Rows rows, const Metric& metric, State state, Team& team)
    : rows_(rows), metric_(metric), state_(std::move(state)) {
    prepare(team);
}

void CoverTree::prepare(Team& team) {
    points_.assign(rows_, state_.order.data(), rows_.n, metric_, team);
    for (const double self : points_.self) largest_self_ = std::max(largest_self_, self);
    state_.order.resize(padded(static_cast<int>(rows_.n)), 0);
    to_centre_.assign(state_.order.size(), 0.0f);
    const auto n_cells = static_cast<std::int64_t>(state_.cells.size());

    child_block_.assign(n_cells, 0);
    std::int64_t blocks = 0;
    for (std::int64_t c = 0; c < n_cells; ++c) {
        child_block_[c] = blocks;
        blocks += n_blocks(state_.cells[c].n_children);
    }
    std::vector<std::int32_t> centres(blocks * lanes);
    child_radius_.assign(blocks * lanes, -infinity);
    child_to_parent_.assign(blocks * lanes, 0.0f);
    for_ranges(team, n_cells, 1024, [&](std::int64_t c0, std::int64_t c1, int) {
        for (std::int64_t c = c0; c < c1; ++c) {
            const Cell& cell = state_.cells[c];
            const std::int64_t slot = child_block_[c] * lanes;
            for (int j = 0; j < padded(cell.n_children); ++j) {
                const bool real = j < cell.n_children;
                centres[slot + j] = real ? state_.cells[cell.first_child + j].centre : cell.centre;
                if (real) child_radius_[slot + j] = state_.cells[cell.first_child + j].radius;
            }
        }
    });
    child_centres_.assign(rows_, centres.data(), blocks * lanes, metric_, team);
    for_ranges(team, n_cells, 256, [&](std::int64_t c0, std::int64_t c1, int) {
        for (std::int64_t c = c0; c < c1; ++c) {
            const Cell& cell = state_.cells[c];
            const float* x = rows_[cell.centre];
            const double self = metric_.self(x);
            for (std::int64_t b = child_block_[c]; b < child_block_[c] + n_blocks(cell.n_children); ++b)
                store(&child_to_parent_[b * lanes],
                      sqrt(metric_.squared(x, self, child_centres_.block(b), child_centres_.block_self(b))));
            if (cell.n_children) continue;
            for (std::int64_t b = cell.begin / lanes; b * lanes < cell.end; ++b) {
                const vfloat d = sqrt(metric_.squared(x, self, points_.block(b), points_.block_self(b)));
                for (std::uint32_t mask = lanes_within(b, cell.begin, cell.end); mask; mask &= mask - 1)
                    to_centre_[b * lanes + std::countr_zero(mask)] = d[std::countr_zero(mask)];
            }
        }
    });
}

// Cells that wait to be visited, the one that can be nearest first.
struct CoverTree::Frontier {
    struct Entry {
        float bound;  // no point of the cell is nearer than this
        float to_centre;
        std::int32_t cell;
        bool operator<(const Entry& o) const { return bound > o.bound; }
    };
    std::vector<Entry> heap;
    std::int64_t n_distances = 0;

    void push(Entry e) {
        heap.push_back(e);
        std::push_heap(heap.begin(), heap.end());
    }
    Entry pop() {
        std::pop_heap(heap.begin(), heap.end());
        const Entry e = heap.back();
        heap.pop_back();
        return e;
    }
};

// Visits the leaf blocks that may hold points within bound(), which may fall on the way. `visit` says
// whether points as far as those it has just seen, with higher indices, could still be of use.
template <class Bound, class Visit>
void CoverTree::search(const float* x, double x_self, Frontier& frontier, const Bound& bound,
                       const Visit& visit) const {
    const float slack = metric_.relative_error(), lost = metric_.cancellation(x_self, largest_self_);
    frontier.heap.clear();
    frontier.push({0.0f, metric_.distance(x, rows_[state_.cells[0].centre]), 0});
    while (!frontier.heap.empty()) {
        const auto [lower, to_centre, c] = frontier.pop();
        float reach = bound();
        if (lower > reach) return;
        const Cell& cell = state_.cells[c];
        if (cell.n_children == 0) {
            for (std::int64_t b = cell.begin / lanes; b * lanes < cell.end; ++b) {
                // |d(x, centre) - d(point, centre)| bounds d(x, point) from below
                const vfloat gap = load(&to_centre_[b * lanes]) - to_centre;
                const vfloat least =
                    max(gap, -gap) - slack * (load(&to_centre_[b * lanes]) + to_centre) - lost;
                if (bits(least <= reach) & lanes_within(b, cell.begin, cell.end)) {
                    frontier.n_distances += lanes;
                    const bool more = visit(b, lanes_within(b, cell.begin, cell.end));
                    if (cell.radius == 0 && !more && metric_.kernel.euclidean()) break;
                    reach = bound();
                }
            }
            continue;
        }
        const std::int64_t last = child_block_[c] + n_blocks(cell.n_children);
        for (std::int64_t b = child_block_[c]; b < last; ++b) {
            const vfloat radius = load(&child_radius_[b * lanes]),
                         to_parent = load(&child_to_parent_[b * lanes]);
            const vfloat gap = max(to_parent - to_centre, to_centre - to_parent);
            if (!bits(gap - radius - slack * (to_parent + to_centre) - lost <= reach)) continue;
            const vfloat d =
                sqrt(metric_.squared(x, x_self, child_centres_.block(b), child_centres_.block_self(b)));
            frontier.n_distances += lanes;
            const vfloat least = d - radius - slack * (d + radius) - lost;
            float d_lane[lanes], least_lane[lanes];
            store(d_lane, d);
            store(least_lane, least);
            for (std::uint32_t mask =
                     bits(least <= reach) & lanes_within(b - child_block_[c], 0, cell.n_children);
                 mask; mask &= mask - 1) {
                const int l = std::countr_zero(mask);
                frontier.push(
                    {std::max(lower, least_lane[l]), d_lane[l],
                     cell.first_child + static_cast<std::int32_t>((b - child_block_[c]) * lanes + l)});
            }
        }
    }
}

// Queries in an order in which neighbours in space come one after the other, so that each finds in the
// cache what the one before has read. Every query goes down to the nearest child while its cell is
// large; queries that end in the same cell stand together. Where the points fit a near cache anyway, or
// queries are too few to meet, they stay as they are.
std::vector<std::int32_t> CoverTree::cell_by_cell(const Rows& queries, Team& team) const {
    constexpr std::int32_t large = 4096;
    std::vector<std::int32_t> cell_of(queries.n, 0);
    if (rows_.n * rows_.d < (1 << 19) || queries.n < rows_.n / large) {
        std::iota(cell_of.begin(), cell_of.end(), 0);
        return cell_of;
    }
    for_ranges(team, queries.n, 256, [&](std::int64_t begin, std::int64_t end, int) {
        for (std::int64_t q = begin; q < end; ++q) {
            team.check();
            const double self = metric_.self(queries[q]);
            std::int32_t c = 0;
            for (const Cell* cell; (cell = &state_.cells[c])->n_children && cell->end - cell->begin > large;)
                c = cell->first_child + nearest_child(queries[q], self, c);
            cell_of[q] = c;
        }
    });
    std::vector<std::int32_t> next(state_.cells.size() + 1, 0), order(queries.n);
    for (const std::int32_t c : cell_of) ++next[c + 1];
    std::partial_sum(next.begin(), next.end(), next.begin());
    for (std::int64_t q = 0; q < queries.n; ++q) order[next[cell_of[q]]++] = static_cast<std::int32_t>(q);
    return order;
}

int CoverTree::nearest_child(const float* x, double x_self, std::int32_t c) const {
    float least = infinity;
    int nearest = 0;
    for (int j = 0; j < state_.cells[c].n_children; j += lanes) {
        const std::int64_t b = child_block_[c] + j / lanes;
        float squared[lanes];
        store(squared, metric_.squared(x, x_self, child_centres_.block(b), child_centres_.block_self(b)));
        for (int l = 0; l < lanes && j + l < state_.cells[c].n_children; ++l)
            if (squared[l] < least) {
                least = squared[l];
                nearest = j + l;
            }
    }
    return nearest;
}

std::int64_t CoverTree::query(const Rows& queries, int k, Neighbourhoods out, Team& team) const {
    const std::vector<std::int32_t> order = cell_by_cell(queries, team);
    PerMember<Nearest> nearest(team, Nearest(k));
    PerMember<Frontier> frontier(team);
    const std::int64_t grain = std::clamp<std::int64_t>(queries.n / (16 * team.size()), 1, 64);
    for_ranges(team, queries.n, grain, [&](std::int64_t begin, std::int64_t end, int member) {
        Nearest& best = nearest[member];
        for (std::int64_t i = begin; i < end; ++i) {
            team.check();
            const std::int64_t q = order[i];
            best.clear();
            const float* x = queries[q];
            const double self = metric_.self(x);
            search(
                x, self, frontier[member], [&] { return std::sqrt(best.bound()); },
                [&](std::int64_t b, std::uint32_t mask) {
                    const vfloat squared = metric_.squared(x, self, points_.block(b), points_.block_self(b));
                    best.offer(squared, &state_.order[b * lanes], mask);
                    const int last = 31 - std::countl_zero(mask);
                    return best.accepts(squared[last], state_.order[b * lanes + last]);
                });
            best.finish();
            best.write(out.squared + q * k, out.index + q * k);
        }
    });
    std::int64_t n_distances = 0;
    for (const Frontier& f : frontier) n_distances += f.n_distances;
    return n_distances;
}

RadiusNeighbours CoverTree::query_radius(const Rows& queries, float squared_radius, Team& team) const {
    return collect_radius(queries.n, team, [&](std::int64_t q, std::vector<std::uint64_t>& row) {
        Frontier frontier;
        const float* x = queries[q];
        const double self = metric_.self(x);
        search(
            x, self, frontier, [&] { return std::sqrt(squared_radius); },
            [&](std::int64_t b, std::uint32_t mask) {
                append_within(metric_.squared(x, self, points_.block(b), points_.block_self(b)),
                              squared_radius, &state_.order[b * lanes], mask, row);
                return true;
            });
    });
}

}  // namespace vicinal
