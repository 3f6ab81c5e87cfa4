#include "smo.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace vicinal {

namespace {

// Added to the diagonal in a Newton step. Kernel matrices of neighbours are singular for all that single
// precision can tell; along their null directions the objective is linear, and this makes the step
// there long, to the next bound, as it should be.
constexpr double ridge = 1e-6;

// Larger matrices than these leave the near caches, and the point of having them.
constexpr std::size_t most_active = 4096, most_free = 1024;

constexpr float tau = 1e-12f;  // stands for a curvature that is zero or, by rounding, negative

// The largest value seen in each lane and the block it was in.
struct LaneMaximum {
    vfloat value = splat(-infinity);
    vint block{};

    void offer(vfloat v, std::int32_t b) {
        const vint larger = v > value;
        value = select(larger, v, value);
        block = select(larger, splat(b), block);
    }
    void offer(const LaneMaximum& other) {
        const vint larger = other.value > value;
        value = select(larger, other.value, value);
        block = select(larger, other.block, block);
    }
    // Index of the largest value, or -1 where all are -infinity.
    int index(float& best) const {
        best = largest(value);
        if (best == -infinity) return -1;
        const std::uint32_t where = bits(value == best);
        const int lane = std::countr_zero(where);
        return block[lane] * lanes + lane;
    }
};

using vdouble = double __attribute__((vector_size(64)));

double dot(const double* a, const double* b, int n) {
    vdouble s0{}, s1{};
    int k = 0;
    const auto at = [](const double* p) {
        vdouble v;
        std::memcpy(&v, p, sizeof v);
        return v;
    };
    for (; k + 16 <= n; k += 16) {
        s0 += at(a + k) * at(b + k);
        s1 += at(a + k + 8) * at(b + k + 8);
    }
    s0 += s1;
    double sum = 0.0;
    for (int l = 0; l < 8; ++l) sum += s0[l];
    for (; k < n; ++k) sum += a[k] * b[k];
    return sum;
}

double sum(const std::vector<double>& x) { return std::accumulate(x.begin(), x.end(), 0.0); }

void subtract(double* __restrict a, const double* __restrict b, double factor, int n) {
    for (int k = 0; k < n; ++k) a[k] -= factor * b[k];
}

// The factor U of a symmetric matrix K = U'U: upper triangle, row by row, so that every inner loop
// below runs along a row.
class Cholesky {
  public:
    // Room for the upper triangle of a matrix of order n, to be filled in and factorised.
    void resize(int n) {
        n_ = n;
        stride_ = padded(n);
        data_.resize(static_cast<std::size_t>(n) * stride_);
    }
    int order() const { return n_; }
    double* row(int i) { return data_.data() + static_cast<std::int64_t>(i) * stride_; }
    const double* row(int i) const { return data_.data() + static_cast<std::int64_t>(i) * stride_; }

    // A pivot that single-precision kernel values cannot vouch for (points that coincide) is made
    // huge, which leaves its variable where it is.
    void factorise(Team* team) {
        std::vector<double> diagonal(n_);
        for (int k = 0; k < n_; ++k) diagonal[k] = row(k)[k];
        for (int first = 0; first < n_; first += panel) {
            if (team) team->check();
            const int last = std::min(first + panel, n_);
            for (int k = first; k < last; ++k) {
                double* pivot_row = row(k);
                const double root = pivot_row[k] > 1e-8 * diagonal[k] ? std::sqrt(pivot_row[k]) : 1e100;
                pivot_row[k] = root;
                const double inverse = 1.0 / root;
                for (int j = k + 1; j < n_; ++j) pivot_row[j] *= inverse;
                for (int i = k + 1; i < last; ++i) subtract(row(i) + i, pivot_row + i, pivot_row[i], n_ - i);
            }
            for (int i = last; i < n_; ++i) subtract_panel(row(i) + i, row(first) + i, n_ - i);
        }
    }

    // x becomes K^-1 x; `first` is the place of the first number in it that is not zero.
    void solve(double* x, int first = 0) const {
        for (int k = first; k < n_; ++k) {
            x[k] /= row(k)[k];
            subtract(x + k + 1, row(k) + k + 1, x[k], n_ - k - 1);
        }
        for (int k = n_ - 1; k >= 0; --k)
            x[k] = (x[k] - dot(row(k) + k + 1, x + k + 1, n_ - k - 1)) / row(k)[k];
    }

    // Takes variable p out: what it had explained of the later ones is added back, a rank-one update.
    void remove(int p) {
        std::vector<double> v(row(p) + p + 1, row(p) + n_);
        for (int k = 0; k < p; ++k) std::copy(row(k) + p + 1, row(k) + n_, row(k) + p);
        for (int k = p + 1; k < n_; ++k) {
            const double* __restrict from = row(k) + k;
            double* __restrict to = row(k - 1) + k - 1;
            double* __restrict w = v.data() + (k - p - 1);
            const int length = n_ - k;
            const double old_root = from[0];
            const double root =
                std::abs(w[0]) < 1e-20 * old_root ? old_root : std::sqrt(old_root * old_root + w[0] * w[0]);
            const double c = root / old_root, s = w[0] / old_root, inverse_c = old_root / root;
            to[0] = root;
            for (int j = 1; j < length; ++j) {
                const double u = (from[j] + s * w[j]) * inverse_c;
                w[j] = c * w[j] - s * u;
                to[j] = u;
            }
        }
        --n_;
    }

  private:
    static constexpr int panel = 8;

    // Takes from a row below what the rows of a panel explain of it, all of them in one pass.
    void subtract_panel(double* __restrict to, const double* __restrict rows, int n) const {
        double factor[panel];
        for (int p = 0; p < panel; ++p) factor[p] = rows[static_cast<std::int64_t>(p) * stride_];
        for (int j = 0; j < n; ++j) {
            double explained = 0.0;
            for (int p = 0; p < panel; ++p)
                explained += factor[p] * rows[static_cast<std::int64_t>(p) * stride_ + j];
            to[j] -= explained;
        }
    }

    int n_ = 0, stride_ = 0;
    AlignedVector<double> data_;
};

}  // namespace

void Smo::start(GramRows& gram, const float* y, int n) {
    gram_ = &gram;
    n_ = n;
    const int m = padded(n);
    beta_.assign(m, 0.0);
    lo_.assign(m, 0.0);
    hi_.assign(m, 0.0);
    y_.assign(m, 0.0f);
    F_.assign(m, 0.0f);
    up_.assign(m, -infinity);
    low_.assign(m, -infinity);
    diagonal_.assign(m, 1.0f);
    for (int i = 0; i < n; ++i) {
        y_[i] = y[i];
        F_[i] = -y[i];
        diagonal_[i] = gram.diagonal(i);
    }
}

void Smo::set_bounds(const float* upper) {
    for (int i = 0; i < n_; ++i) {
        lo_[i] = y_[i] > 0 ? 0.0 : -static_cast<double>(upper[i]);
        hi_[i] = y_[i] > 0 ? static_cast<double>(upper[i]) : 0.0;
        set_membership(i);
    }
}

// The objective of a multiple of beta.
double Smo::objective(double factor) const {
    double quadratic = 0.0, linear = 0.0;
    for (int i = 0; i < n_; ++i) {
        quadratic += 0.5 * beta_[i] * (static_cast<double>(F_[i]) + y_[i]);
        linear += beta_[i] * y_[i];
    }
    return factor * factor * quadratic - factor * linear;
}

void Smo::grow_bounds(double factor) {
    const bool scale = objective(factor) < objective();
    for (int i = 0; i < n_; ++i) {
        lo_[i] *= factor;
        hi_[i] *= factor;
        if (scale) {
            beta_[i] = std::clamp(beta_[i] * factor, lo_[i], hi_[i]);
            F_[i] = static_cast<float>(factor * (static_cast<double>(F_[i]) + y_[i]) - y_[i]);
        }
        set_membership(i);
    }
}

void Smo::set_membership(int i) {
    up_[i] = beta_[i] < hi_[i] ? 0.0f : -infinity;
    low_[i] = beta_[i] > lo_[i] ? 0.0f : -infinity;
}

// One pass adds the last step and finds the next i, a second one finds its j. Returns whether the
// optimum was reached within `limit` iterations.
bool Smo::iterate(double tolerance, std::int64_t limit, std::int64_t& iterations, Team* team) {
    const int blocks = padded(n_) / lanes;
    float* F = F_.data();
    const float* up = up_.data();
    const float* low = low_.data();
    const float* diagonal = diagonal_.data();
    const float* row_i = F;  // with a step of zero, anything does
    const float* row_j = F;
    float step = 0.0f;

    for (std::int64_t iteration = 0;; ++iteration) {
        LaneMaximum grow[2];
        vfloat fall[2] = {splat(-infinity), splat(-infinity)};
        int b = 0;
        const auto update = [&](int block, int way) {
            const int at = block * lanes;
            const vfloat f = load(F + at) + step * (load(row_i + at) - load(row_j + at));
            store(F + at, f);
            grow[way].offer(load(up + at) - f, block);
            fall[way] = max(fall[way], load(low + at) + f);
        };
        for (; b + 1 < blocks; b += 2) {
            update(b, 0);
            update(b + 1, 1);
        }
        if (b < blocks) update(b, 0);
        grow[0].offer(grow[1]);
        float most;
        const int i = grow[0].index(most);
        const float gap = most + largest(max(fall[0], fall[1]));
        if (i < 0 || !(gap > tolerance)) return true;
        if (iteration >= limit) return false;
        if (team && iteration % 64 == 63) team->check();

        row_i = gram_->row(i);
        const float diagonal_i = diagonal_[i];
        LaneMaximum gain[2];
        const auto score = [&](int block, int way) {
            const int at = block * lanes;
            const vfloat excess = most + load(F + at);
            const vfloat curvature =
                max(diagonal_i + load(diagonal + at) - 2.0f * load(row_i + at), splat(tau));
            const vfloat decrease = excess * excess * approximate_reciprocal(curvature) + load(low + at);
            gain[way].offer(select(excess > 0.0f, decrease, splat(-infinity)), block);
        };
        for (b = 0; b + 1 < blocks; b += 2) {
            score(b, 0);
            score(b + 1, 1);
        }
        if (b < blocks) score(b, 0);
        gain[0].offer(gain[1]);
        float unused;
        const int j = gain[0].index(unused);
        if (j < 0) return true;

        row_j = gram_->row(j);
        const double curvature = std::max(diagonal_i + diagonal_[j] - 2.0f * row_i[j], tau);
        const double wanted = (static_cast<double>(most) + F[j]) / curvature;
        const double room_i = hi_[i] - beta_[i], room_j = beta_[j] - lo_[j];
        const double taken = std::min({wanted, room_i, room_j});
        beta_[i] = taken == room_i ? hi_[i] : beta_[i] + taken;
        beta_[j] = taken == room_j ? lo_[j] : beta_[j] - taken;
        set_membership(i);
        set_membership(j);
        step = static_cast<float>(taken);
        ++iterations;
    }
}

// A point as near to its bound as rounding can bring it is at its bound. What rounding can do depends on
// the values there are, not on the bounds, which may be far above them all.
void Smo::snap_to_bounds() {
    double largest = 0.0;
    for (int i = 0; i < n_; ++i) largest = std::max(largest, std::abs(beta_[i]));
    for (int i = 0; i < n_; ++i) {
        const double near = 1e-12 * std::min(hi_[i] - lo_[i], largest);
        if (beta_[i] - lo_[i] < near) beta_[i] = lo_[i];
        if (hi_[i] - beta_[i] < near) beta_[i] = hi_[i];
        set_membership(i);
    }
}

// F = K beta - y, afresh, in double precision: what single precision lost on the way comes back.
void Smo::recompute_gradient(Team* team) {
    std::vector<double> sum(padded(n_), 0.0);
    for (int i = 0; i < n_; ++i) {
        if (beta_[i] == 0.0) continue;
        if (team) team->check();
        const float* row = gram_->row(i);
        const double beta = beta_[i];
        for (int k = 0; k < padded(n_); ++k) sum[k] += beta * row[k];
    }
    for (int k = 0; k < n_; ++k) F_[k] = static_cast<float>(sum[k] - y_[k]);
}

void Smo::find_free_points() {
    free_.clear();
    for (int i = 0; i < n_; ++i)
        if (beta_[i] > lo_[i] && beta_[i] < hi_[i]) free_.push_back(i);
}

// Operations of a Newton step that meets no bound: the factorisation, and bringing F up to date.
double Smo::newton_cost() const {
    const double m = static_cast<double>(free_.size());
    return m * m * (m / 3 + 8) + m * n_;
}

// Minimises the objective over the free points, the others fixed, as far as the bounds allow: a line
// towards the minimum, at the first bound that it meets a point less and a new direction, and so on.
// Returns the number of operations it took.
double Smo::settle_free_points(Team* team) {
    double operations = newton_cost();
    std::vector<int> point = free_;  // those that still move
    std::vector<double> gradient, to_gradient, to_ones, to_blocking, delta, before;
    Cholesky factor;
    factor.resize(static_cast<int>(point.size()));
    part_.resize(point.size() * padded(factor.order()));
    gram_->part(point, part_.data());
    for (int p = 0; p < factor.order(); ++p) {
        const float* row = part_.data() + static_cast<std::int64_t>(p) * padded(factor.order());
        std::copy(row + p, row + factor.order(), factor.row(p) + p);
        factor.row(p)[p] += ridge * diagonal_[point[p]];
        gradient.push_back(F_[point[p]]);
        before.push_back(beta_[point[p]]);
    }
    factor.factorise(team);
    to_gradient = gradient;
    to_ones.assign(point.size(), 1.0);
    factor.solve(to_gradient.data());
    factor.solve(to_ones.data());

    while (factor.order() >= 2) {
        if (team) team->check();
        // delta = -K^-1 (g + nu 1), with nu such that it sums to zero
        const int m = factor.order();
        const double nu = -sum(to_gradient) / sum(to_ones);
        double length = 1.0, descent = 0.0;
        int blocking = -1;
        delta.resize(m);
        for (int p = 0; p < m; ++p) {
            delta[p] = -(to_gradient[p] + nu * to_ones[p]);
            descent += delta[p] * gradient[p];
            const double room = (delta[p] > 0 ? hi_[point[p]] : lo_[point[p]]) - beta_[point[p]];
            if (std::abs(delta[p]) * length > std::abs(room)) {
                length = room / delta[p];
                blocking = p;
            }
        }
        if (!(descent < 0.0) || !std::isfinite(descent)) break;
        for (int p = 0; p < m; ++p) {
            beta_[point[p]] += length * delta[p];
            gradient[p] -= length * (gradient[p] + nu);
            to_gradient[p] += length * delta[p];
        }
        if (blocking < 0) break;
        beta_[point[blocking]] = delta[blocking] > 0 ? hi_[point[blocking]] : lo_[point[blocking]];
        // Without its row and column the inverse is (K^-1)_ij - (K^-1)_ib (K^-1)_bj / (K^-1)_bb.
        to_blocking.assign(m, 0.0);
        to_blocking[blocking] = 1.0;
        factor.solve(to_blocking.data(), blocking);
        const auto leave_out = [&](std::vector<double>& x) {
            const double factor = x[blocking] / to_blocking[blocking];
            for (int p = 0; p < m; ++p) x[p] -= factor * to_blocking[p];
            x.erase(x.begin() + blocking);
        };
        leave_out(to_gradient);
        leave_out(to_ones);
        factor.remove(blocking);
        point.erase(point.begin() + blocking);
        gradient.erase(gradient.begin() + blocking);
        operations += 3.0 * m * m;
    }

    for (std::size_t p = 0; p < free_.size(); ++p) {
        const int i = free_[p];
        beta_[i] = std::clamp(beta_[i], lo_[i], hi_[i]);
        set_membership(i);
        const auto step = static_cast<float>(beta_[i] - before[p]);
        if (step == 0.0f) continue;
        if (team) team->check();
        add_to_gradient(step, i);
    }
    return operations;
}

// Leaves out the points at a bound whose gradient lies beyond that of every point they could be
// paired with.
void Smo::find_active_points() {
    float most = -infinity, least = infinity;  // of -F over the points that may grow, that may fall
    for (int i = 0; i < n_; ++i) {
        if (up_[i] == 0.0f) most = std::max(most, -F_[i]);
        if (low_[i] == 0.0f) least = std::min(least, -F_[i]);
    }
    active_.clear();
    for (int i = 0; i < n_; ++i) {
        const bool grows = up_[i] == 0.0f, falls = low_[i] == 0.0f;
        if ((grows && falls) || (grows && -F_[i] >= least) || (falls && -F_[i] <= most)) active_.push_back(i);
    }
}

// Solves for the active points, the others fixed: their part of the gradient stays as it is.
void Smo::solve_active_points(double tolerance, std::int64_t most, std::int64_t& iterations, Team* team) {
    const int m = static_cast<int>(active_.size()), stride = padded(m);
    part_.resize(static_cast<std::size_t>(m) * stride);
    gram_->part(active_, part_.data());
    DenseGram gram(part_.data(), stride);
    if (!active_smo_) active_smo_ = std::make_unique<Smo>();
    Smo& inner = *active_smo_;
    std::vector<float> labels(m);
    for (int p = 0; p < m; ++p) labels[p] = y_[active_[p]];
    inner.start(gram, labels.data(), m);
    for (int p = 0; p < m; ++p) {
        const int i = active_[p];
        inner.beta_[p] = beta_[i];
        inner.F_[p] = F_[i];
        inner.lo_[p] = lo_[i];
        inner.hi_[p] = hi_[i];
        inner.set_membership(p);
    }
    inner.improve(tolerance, most, iterations, team);
    for (int p = 0; p < m; ++p) {
        const int i = active_[p];
        const auto step = static_cast<float>(inner.beta_[p] - beta_[i]);
        if (step == 0.0f) continue;
        beta_[i] = inner.beta_[p];
        set_membership(i);
        if (team) team->check();
        add_to_gradient(step, i);
    }
}

void Smo::add_to_gradient(float step, int i) {
    const float* row = gram_->row(i);
    for (int k = 0; k < padded(n_); k += lanes) store(&F_[k], load(&F_[k]) + step * load(row + k));
}

// Brings the gap below the tolerance, as far as the gradient in single precision can tell. Returns
// whether it did so before the iterations were `most`.
bool Smo::improve(double tolerance, std::int64_t most, std::int64_t& iterations, Team* team) {
    const double pair_cost = 8.0 * n_ + 1000;  // operations of one iteration of the pair loop
    double last_cost = 0.0;
    while (iterations < most) {
        if (team) team->check();
        // Pairs get three times the time of Newton steps, which thus cannot cost much where they are of no
        // use.
        find_free_points();
        const double allowance = free_.size() < most_free ? std::max(last_cost, newton_cost()) : last_cost;
        const double limit = std::max(n_ / 10.0 + 20.0, 0.5 * allowance / pair_cost);
        if (iterate(tolerance, static_cast<std::int64_t>(limit), iterations, team)) return true;
        find_active_points();
        find_free_points();
        if (n_ >= 128 && active_.size() < 0.7 * n_ && active_.size() < most_active)
            solve_active_points(tolerance, most, iterations, team);
        else if (free_.size() < most_free)
            last_cost = settle_free_points(team);
    }
    return false;
}

// Improves until the tolerance is reached. Gives up when the gap stays open while many iterations do
// not lower the objective any more: they then only move rounding errors about.
bool Smo::descend(double tolerance, std::int64_t& iterations, Team* team) {
    constexpr double least_descent = 1e-9;
    const std::int64_t stretch = 100'000 + 20 * static_cast<std::int64_t>(n_);
    while (iterations < most_iterations) {
        const double before = objective();
        const std::int64_t most = std::min(most_iterations, iterations + stretch);
        if (improve(tolerance, most, iterations, team)) return true;
        if (!(objective() < before - least_descent * std::abs(before))) return false;
    }
    return false;
}

std::int64_t Smo::solve(double tolerance, Team* team) {
    std::int64_t iterations = 0;
    for (int round = 0; round < 20; ++round) {  // until a gradient computed afresh agrees
        const std::int64_t before = iterations;
        const bool reached = descend(0.9 * tolerance, iterations, team);
        if (round > 0 && iterations == before) break;
        snap_to_bounds();
        recompute_gradient(team);
        if (round > 0 && !reached) return most_iterations;
    }
    return iterations;
}

double Smo::bias() const {
    double sum = 0.0, upper = infinity, lower = -infinity;
    int n_free = 0;
    for (int i = 0; i < n_; ++i) {
        if (lo_[i] == hi_[i]) continue;
        const double b = -static_cast<double>(F_[i]);
        if (beta_[i] > lo_[i] && beta_[i] < hi_[i]) {
            sum += b;
            ++n_free;
        } else if (beta_[i] < hi_[i]) {
            lower = std::max(lower, b);
        } else {
            upper = std::min(upper, b);
        }
    }
    return n_free ? sum / n_free : (upper + lower) / 2;
}

}  // namespace vicinal
