// Scan and tree against a plain loop in double precision, and the tree against what it promises.

#include <algorithm>
#include <cassert>
#include <cmath>
#include <map>
#include <utility>

#include "cover_tree.hpp"
#include "neighbours.hpp"
#include "random.hpp"

using namespace vicinal;

namespace {

const Kernel euclidean{};
const Kernel cubic{KernelKind::polynomial, 1.0, 1.0, 3};

using Row = std::vector<std::pair<float, std::int32_t>>;

double exact_squared(const Kernel& kernel, const float* x, const float* y, int d) {
    double squared = 0.0, xx = 0.0, yy = 0.0, xy = 0.0;
    for (int f = 0; f < d; ++f) {
        squared += (static_cast<double>(x[f]) - y[f]) * (static_cast<double>(x[f]) - y[f]);
        xx += static_cast<double>(x[f]) * x[f];
        yy += static_cast<double>(y[f]) * y[f];
        xy += static_cast<double>(x[f]) * y[f];
    }
    const auto value = [&](double t) { return std::pow(kernel.gamma * t + kernel.coef0, kernel.degree); };
    return kernel.euclidean() ? squared : value(xx) + value(yy) - 2.0 * value(xy);
}

std::vector<Row> naive(const Points& points, const Points& queries, const Kernel& kernel) {
    std::vector<Row> rows(queries.n());
    for (std::int64_t q = 0; q < queries.n(); ++q) {
        for (std::int32_t i = 0; i < points.n(); ++i)
            rows[q].emplace_back(
                static_cast<float>(exact_squared(kernel, queries.rows()[q], points.rows()[i], points.d)), i);
        std::ranges::sort(rows[q]);
    }
    return rows;
}

template <class Index>
std::vector<Row> nearest(const Index& index, const Points& queries, int k, Team& team) {
    std::vector<float> squared(queries.n() * k);
    std::vector<std::int32_t> found(queries.n() * k);
    index.query(queries.rows(), k, {squared.data(), found.data()}, team);
    std::vector<Row> rows(queries.n());
    for (std::int64_t at = 0; at < queries.n() * k; ++at) rows[at / k].emplace_back(squared[at], found[at]);
    return rows;
}

template <class Index>
std::vector<Row> within(const Index& index, const Points& queries, float squared_radius, Team& team) {
    const RadiusNeighbours found = index.query_radius(queries.rows(), squared_radius, team);
    std::vector<Row> rows(queries.n());
    for (std::int64_t q = 0; q < queries.n(); ++q)
        for (std::int64_t at = found.row_ptr[q]; at < found.row_ptr[q + 1]; ++at)
            rows[q].emplace_back(found.squared[at], found.index[at]);
    return rows;
}

// The first k of each row, or those within a radius.
std::vector<Row> first(std::vector<Row> rows, int k) {
    for (Row& row : rows) row.resize(k);
    return rows;
}
std::vector<Row> up_to(std::vector<Row> rows, float squared_radius) {
    for (Row& row : rows) std::erase_if(row, [&](const auto& entry) { return entry.first > squared_radius; });
    return rows;
}

Points some_of(const Points& points, int n) {
    Points out{{}, points.d};
    for (std::int64_t i = 0; i < std::min<std::int64_t>(n, points.n()); ++i)
        out.data.insert(out.data.end(), points.rows()[i], points.rows()[i] + points.d);
    return out;
}

void check_invariants(const Points& points, const Metric& metric, const CoverTree& tree) {
    const auto& [base, order, levels, parents, cells] = tree.state();
    const auto n = static_cast<std::int32_t>(points.n());
    const auto distance = [&](std::int32_t i, std::int32_t j) {
        return static_cast<double>(metric.distance(points.rows()[i], points.rows()[j]));
    };
    constexpr double rounding = 1e-5;

    std::vector<std::int32_t> sorted(order.begin(), order.begin() + n);
    std::ranges::sort(sorted);
    assert(sorted == all_of(n));

    std::map<std::int32_t, std::vector<std::int32_t>> children;
    int n_roots = 0;
    for (std::int32_t i = 0; i < n; ++i) {
        const std::int32_t parent = parents[i];
        if (parent < 0) {
            ++n_roots;
            continue;
        }
        assert(levels[parent] > levels[i]);  // nesting; and nobody descends from a duplicate
        if (levels[i] == CoverTree::duplicate) {
            assert(distance(i, parent) == 0.0);
            continue;
        }
        assert(distance(i, parent) <= std::pow(base, levels[i] + 1) * (1 + rounding));
        assert(distance(i, parent) > std::pow(base, levels[i]) * (1 - rounding));
        children[parent].push_back(i);
    }
    assert(n_roots == 1);
    for (const auto& [parent, siblings] : children)
        for (const std::int32_t i : siblings)
            for (const std::int32_t j : siblings)
                if (i < j)
                    assert(distance(i, j) > std::pow(base, std::min(levels[i], levels[j])) * (1 - rounding));

    for (const auto& cell : cells) {
        for (std::int32_t at = cell.begin; at < cell.end; ++at)
            assert(distance(order[at], cell.centre) <= cell.radius * (1 + rounding));
        std::int32_t next = cell.begin;  // the children share the points among them
        for (std::int32_t c = cell.first_child; c < cell.first_child + cell.n_children; ++c) {
            assert(cells[c].begin == next);
            next = cells[c].end;
        }
        assert(cell.n_children == 0 || next == cell.end);
        assert(cell.n_children == 0 || cells[cell.first_child].centre == cell.centre);
    }
}

// Everything at once, on points whose distances single precision holds exactly.
void check_exactly(const Points& points, const Points& queries, const Kernel& kernel, double base = 0.0) {
    const Metric metric{kernel, points.d};
    const int n = static_cast<int>(points.n());
    Team one(1), four(4);
    const Scan scan(points.rows(), metric, one);
    const CoverTree tree(points.rows(), metric, base, four);
    const CoverTree again(points.rows(), metric, tree.state(), one);
    check_invariants(points, metric, tree);
    const std::vector<Row> expected = naive(points, queries, kernel);
    for (const int k : {1, 2, 16, 17, n / 2, n}) {
        if (k < 1 || k > n) continue;
        assert(nearest(scan, queries, k, one) == first(expected, k));
        assert(nearest(scan, queries, k, four) == first(expected, k));
        assert(nearest(tree, queries, k, one) == first(expected, k));
        assert(nearest(tree, queries, k, four) == first(expected, k));
        assert(nearest(again, queries, k, one) == first(expected, k));
    }
    for (const float radius : {0.0f, expected[0][n / 3].first, infinity}) {
        assert(within(scan, queries, radius, four) == up_to(expected, radius));
        assert(within(tree, queries, radius, one) == up_to(expected, radius));
        assert(within(again, queries, radius, four) == up_to(expected, radius));
    }
}

void integer_points() {
    for (const int d : {1, 2, 3, 17, 54})
        for (const int n : {1, 2, 15, 16, 17, 33, 1000}) {
            const Points points = grid_points(n, d, 1), elsewhere = grid_points(20, d, 2);
            for (const Kernel& kernel : {euclidean, cubic}) {
                check_exactly(points, elsewhere, kernel);
                check_exactly(points, some_of(points, 20), kernel);
            }
        }
}

void duplicates() {
    Points twice = grid_points(300, 3, 3);
    twice.data.insert(twice.data.end(), twice.data.begin(), twice.data.end());
    check_exactly(twice, some_of(twice, 20), euclidean);

    for (const int n : {1, 2, 31, 33, 200}) {
        const Points same{std::vector<float>(n * 4, 2.0f), 4};
        check_exactly(same, some_of(same, 2), euclidean);
        check_exactly(same, some_of(same, 2), cubic);
    }

    Points mostly{std::vector<float>(1000, 1.0f), 1};  // one place, and three points far from it
    for (const int i : {0, 400, 999}) mostly.data[i] = static_cast<float>(i + 8);
    check_exactly(mostly, some_of(mostly, 3), euclidean);
}

// Points exactly where a cell ends, for bases whose powers single precision rounds up or down.
void powers_of_the_base() {
    for (const double base : {1.05, 1.1, 1.3, 1.5, 1.7, 2.0, 3.0}) {
        Team team(1);
        const Metric metric{euclidean, 1};
        for (int i = -20; i <= 20; ++i) {
            const Points two{{0.0f, static_cast<float>(std::pow(base, i))}, 1};
            check_invariants(two, metric, CoverTree(two.rows(), metric, base, team));
        }
        Points many{{0.0f}, 1};
        for (int i = -20; i <= 20; ++i) {
            const auto x = static_cast<float>(std::pow(base, i));
            many.data.insert(many.data.end(), {x, -x, std::nextafter(x, 0.0f), std::nextafter(x, 1e9f)});
        }
        check_invariants(many, metric, CoverTree(many.rows(), metric, base, team));
    }
}

// Rounded distances: tree and scan agree to the last bit, and with the exact ones to rounding.
void real_points() {
    Team one(1), four(4);
    for (const int d : {1, 2, 3, 17, 54})
        for (const Kernel& kernel : {euclidean, cubic}) {
            const Points points = normal_points(1000, d, 4), queries = normal_points(50, d, 5);
            const Metric metric{kernel, d};
            const Scan scan(points.rows(), metric, four);
            const std::vector<Row> expected = naive(points, queries, kernel);
            for (const double base : {0.0, 1.3, 2.0}) {
                const CoverTree tree(points.rows(), metric, base, four);
                check_invariants(points, metric, tree);
                const CoverTree alone(points.rows(), metric, base, one);
                assert(tree.state().order == alone.state().order);
                assert(tree.state().levels == alone.state().levels);
                assert(tree.state().parents == alone.state().parents);
                for (const int k : {1, 10, 100}) {
                    const auto found = nearest(scan, queries, k, one);
                    assert(nearest(tree, queries, k, four) == found);
                    for (std::size_t q = 0; q < found.size(); ++q)
                        for (int h = 0; h < k; ++h) {
                            const float exact = expected[q][h].first;
                            assert(std::abs(found[q][h].first - exact) <= 1e-5f * exact);
                        }
                }
                const float radius = expected[0][100].first;
                assert(within(tree, queries, radius, four) == within(scan, queries, radius, one));
            }
        }
}

// A cell is large from some size on, and is then split by all threads together.
void many_points() {
    Team one(1), four(4);
    const Points points = normal_points(20000, 2, 6), queries = some_of(points, 100);
    const Metric metric{euclidean, 2};
    const CoverTree tree(points.rows(), metric, 0.0, four), alone(points.rows(), metric, 0.0, one);
    assert(tree.state().order == alone.state().order && tree.state().levels == alone.state().levels);
    const Scan scan(points.rows(), metric, four);
    for (const int k : {1, 16, 300})
        assert(nearest(tree, queries, k, four) == nearest(scan, queries, k, four));
}

void more_neighbours_than_points() {
    Team team(1);
    const Points points = grid_points(5, 2, 7);
    const Metric metric{euclidean, 2};
    for (const int k : {8, 40}) {
        const auto found = nearest(Scan(points.rows(), metric, team), points, k, team);
        assert(nearest(CoverTree(points.rows(), metric, 0.0, team), points, k, team) == found);
        assert(found[0][4].second >= 0 && found[0][5] == std::pair(infinity, -1));
    }
}

}  // namespace

int main() {
    powers_of_the_base();
    integer_points();
    duplicates();
    real_points();
    many_points();
    more_neighbours_than_points();
}
