// The solver of one dual: the optimality conditions, recomputed in double precision.

#include "smo.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>

#include "gram.hpp"
#include "random.hpp"

using namespace vicinal;

namespace {

constexpr double tolerance = 1e-3;
const Kernel rbf{KernelKind::rbf, 0.5}, linear{KernelKind::linear, 1.0},
    cubic{KernelKind::polynomial, 0.3, 1.0, 3};

struct Problem {
    Points points;
    std::vector<float> labels, upper;

    int n() const { return static_cast<int>(labels.size()); }
};

// Two classes that overlap, the first label for sure negative, the last positive.
Problem random_problem(int n, int d, double C, unsigned seed) {
    Random random(seed);
    Problem p{normal_points(n, d, seed + 1), {}, std::vector<float>(n, static_cast<float>(C))};
    for (int i = 0; i < n; ++i) {
        const float x = p.points.rows()[i][0] + 0.5f * random.normal();
        p.labels.push_back(i == 0 ? -1.0f : i == n - 1 ? 1.0f : x > 0 ? 1.0f : -1.0f);
    }
    return p;
}

// The kernel matrix in both forms: all of it, and as few rows at a time as the solver can do with.
struct Matrix {
    std::vector<std::int32_t> index;
    LocalPoints points;
    AlignedVector<float> tile;

    Matrix(const Problem& p, const Kernel& kernel) : index(all_of(p.n())) {
        points.gather_from(p.points.rows(), index.data(), p.n());
        tile.resize(static_cast<std::size_t>(p.n()) * padded(p.n()));
        Team team(1);
        gram_tile(points, kernel, tile.data(), team);
    }
    Matrix(const Matrix&) = delete;
    DenseGram dense() const { return {tile.data(), padded(points.k)}; }
    double operator()(int i, int j) const { return tile[static_cast<std::size_t>(i) * padded(points.k) + j]; }
};

double objective(const Smo& smo, const Problem& p, const Matrix& K) {
    double value = 0.0;
    for (int i = 0; i < p.n(); ++i) {
        double row = 0.0;
        for (int j = 0; j < p.n(); ++j) row += K(i, j) * smo.beta(j);
        value += smo.beta(i) * (0.5 * row - p.labels[i]);
    }
    return value;
}

// Bounds, balance, and LIBSVM's stopping rule, with upper bounds `factor` times the problem's.
void check_optimal(const Smo& smo, const Problem& p, const Matrix& K, double factor = 1.0) {
    double balance = 0.0, size = 0.0, most = -infinity, least = infinity;
    for (int i = 0; i < p.n(); ++i) {
        const double alpha = p.labels[i] * smo.beta(i), C = factor * p.upper[i];
        assert(alpha >= 0.0 && alpha <= C * (1 + 1e-12));
        balance += smo.beta(i);
        size += std::abs(smo.beta(i));
        double gradient = -p.labels[i];
        for (int j = 0; j < p.n(); ++j) gradient += K(i, j) * smo.beta(j);
        assert(std::abs(gradient - smo.gradient(i)) <= 1e-5 * (1.0 + std::abs(gradient)));
        if (C == 0.0) continue;
        const bool at_zero = alpha == 0.0, at_upper = alpha >= C * (1 - 1e-12);
        if (p.labels[i] > 0 ? !at_upper : !at_zero) most = std::max(most, -gradient);
        if (p.labels[i] > 0 ? !at_zero : !at_upper) least = std::min(least, -gradient);
    }
    assert(std::abs(balance) <= 1e-6 * (1.0 + size));
    assert(most - least <= tolerance);
    if (std::isfinite(most) && std::isfinite(least))
        assert(smo.bias() >= std::min(most, least) - tolerance &&
               smo.bias() <= std::max(most, least) + tolerance);
}

void solve(Smo& smo, const Problem& p, GramRows& gram) {
    smo.start(gram, p.labels.data(), p.n());
    smo.set_bounds(p.upper.data());
    smo.solve(tolerance, nullptr);
}

// Solves with both forms of the matrix, which must lead to the same optimum.
void check(const Problem& p, const Kernel& kernel) {
    const Matrix K(p, kernel);
    DenseGram dense = K.dense();
    Team team(1);
    CachedGram cached(K.points, kernel, 0, team);
    for (int i = 0; i < p.n(); ++i) {
        const float* row = cached.row(i);
        for (int j = 0; j < p.n(); ++j) assert(row[j] == dense.row(i)[j]);
        assert(std::abs(cached.diagonal(i) - dense.diagonal(i)) <= 1e-6f * dense.diagonal(i));
    }
    Smo smo;
    solve(smo, p, dense);
    check_optimal(smo, p, K);
    const double expected = objective(smo, p, K);
    solve(smo, p, cached);
    check_optimal(smo, p, K);
    assert(std::abs(objective(smo, p, K) - expected) <= 1e-3 * (1.0 + std::abs(expected)));
}

void random_problems() {
    for (const int n : {2, 3, 15, 16, 17, 33, 100, 300})
        for (const double C : {0.01, 1.0, 100.0})
            for (const Kernel& kernel : {rbf, linear, cubic}) check(random_problem(n, 3, C, n), kernel);
}

// A point of bound zero is left out, whatever else holds for it; its output is still known.
void points_that_take_no_part() {
    for (const int n : {17, 100}) {
        Problem p = random_problem(n, 3, 10.0, 7);
        for (int i = 1; i + 1 < n; i += 3) p.upper[i] = 0.0f;
        for (int i = 2; i + 1 < n; i += 3) p.upper[i] = 0.5f;
        check(p, rbf);

        Problem rest{{{}, p.points.d}, {}, {}};
        for (int i = 0; i < n; ++i) {
            if (p.upper[i] == 0.0f) continue;
            rest.points.data.insert(rest.points.data.end(), p.points.rows()[i], p.points.rows()[i + 1]);
            rest.labels.push_back(p.labels[i]);
            rest.upper.push_back(p.upper[i]);
        }
        const Matrix all(p, rbf), some(rest, rbf);
        DenseGram all_rows = all.dense(), some_rows = some.dense();
        Smo with, without;
        solve(with, p, all_rows);
        solve(without, rest, some_rows);
        for (int i = 0, r = 0; i < n; ++i) {
            if (p.upper[i] == 0.0f)
                assert(with.beta(i) == 0.0);
            else
                assert(std::abs(with.gradient(i) - without.gradient(r++)) < 20 * tolerance);
        }
    }
}

void contradicting_duplicates() {
    for (const int n : {16, 50, 200}) {
        Problem p = random_problem(n, 2, 1.0, 8);
        for (int i = 1; i < n; i += 2) {
            for (int f = 0; f < 2; ++f) p.points.data[i * 2 + f] = p.points.data[(i - 1) * 2 + f];
            p.labels[i] = -p.labels[i - 1];
        }
        for (const Kernel& kernel : {rbf, linear, cubic}) check(p, kernel);
    }
    Problem one_place = random_problem(20, 2, 1.0, 9);
    std::ranges::fill(one_place.points.data, 0.25f);
    check(one_place, rbf);
}

void a_class_of_one_point() {
    for (const int n : {2, 5, 16, 129}) {
        Problem p = random_problem(n, 3, 5.0, 10);
        std::fill(p.labels.begin(), p.labels.end() - 1, -1.0f);
        check(p, rbf);
        check(p, linear);
    }
}

// One class, or nothing that may move: solved before it starts.
void nothing_to_do() {
    Problem p = random_problem(20, 2, 1.0, 11);
    std::ranges::fill(p.labels, 1.0f);
    const Matrix K(p, rbf);
    DenseGram gram = K.dense();
    Smo smo;
    solve(smo, p, gram);
    for (int i = 0; i < p.n(); ++i) assert(smo.beta(i) == 0.0);

    Problem frozen = random_problem(20, 2, 0.0, 11);
    solve(smo, frozen, gram);
    for (int i = 0; i < p.n(); ++i) assert(smo.beta(i) == 0.0);
}

void bounds_may_grow() {
    for (const Kernel& kernel : {rbf, cubic}) {
        const Problem p = random_problem(150, 3, 0.1, 12);
        const Matrix K(p, kernel);
        DenseGram gram = K.dense();
        Smo smo, afresh;
        solve(smo, p, gram);
        double factor = 1.0;
        for (const double times : {1.0, 2.0, 8.0, 64.0}) {
            factor *= times;
            smo.grow_bounds(times);
            smo.solve(tolerance, nullptr);
            check_optimal(smo, p, K, factor);
            Problem larger = p;
            for (float& C : larger.upper) C *= static_cast<float>(factor);
            solve(afresh, larger, gram);
            assert(std::abs(objective(smo, p, K) / objective(afresh, p, K) - 1.0) < 1e-3);
        }
    }
}

// Enough points, most of them at a bound, that the others are solved by themselves.
void many_bounded_points() {
    const Problem p = random_problem(600, 3, 0.5, 13);
    check(p, rbf);
    Problem easy = random_problem(600, 3, 1000.0, 14);
    for (int i = 0; i < easy.n(); ++i) easy.points.data[i * 3] += 1.5f * easy.labels[i];
    check(easy, rbf);
}

}  // namespace

int main() {
    random_problems();
    points_that_take_no_part();
    contradicting_duplicates();
    a_class_of_one_point();
    nothing_to_do();
    bounds_may_grow();
    many_bounded_points();
}
