// Machines: trained and kept, trained and thrown away, and held-out points, must all agree.

#include "local_svm.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>

#include "neighbours.hpp"
#include "random.hpp"

using namespace vicinal;

namespace {

constexpr int d = 2, n_points = 400, k = 40;
constexpr std::int64_t large_cache = 1 << 28;
const Kernel rbf{KernelKind::rbf, 0.5}, linear{KernelKind::linear, 1.0},
    quadratic{KernelKind::polynomial, 0.5, 1.0, 2};

Settings settings_of(const Kernel& kernel, bool local_gamma, std::int64_t cache_bytes = large_cache) {
    return {kernel, local_gamma, 50.0, 1e-4, cache_bytes};
}

// Points in classes by their first feature, so that many neighbourhoods know but one or two.
struct Example {
    Points points = normal_points(n_points, d, 1), queries = normal_points(100, d, 2);
    std::vector<std::int32_t> targets, neighbourhoods;
    std::vector<float> weights, C;
    int n_classes;

    explicit Example(int n_classes) : n_classes(n_classes) {
        Random random(3);
        for (int i = 0; i < n_points; ++i) {
            const double x = points.rows()[i][0] + 0.3 * random.normal();
            targets.push_back(
                std::clamp(static_cast<int>(std::floor(x + 0.5 * n_classes)), 0, n_classes - 1));
            weights.push_back(i % 3 ? 1.0f : 0.5f);
        }
        C.assign(queries.n(), 2.0f);
        neighbourhoods.resize(queries.n() * k);
        std::vector<float> squared(neighbourhoods.size());
        Team team(1);
        Scan(points.rows(), {Kernel{}, d}, team)
            .query(queries.rows(), k, {squared.data(), neighbourhoods.data()}, team);
    }
    Data data() const { return {points.rows(), targets.data(), weights.data()}; }
    NeighbourhoodList list() const { return {neighbourhoods.data(), queries.n(), k}; }
    std::size_t n_decisions() const { return queries.n() * (n_classes == 2 ? 1 : n_classes); }
};

// The machines laid end to end, as evaluate() takes them.
struct Flat {
    std::vector<float> gamma, coef, bias;
    std::vector<std::int64_t> sv_ptr{0}, class_ptr{0}, coef_ptr{0}, bias_ptr{0};
    std::vector<std::int32_t> sv, classes, class_sv;

    explicit Flat(const std::vector<Machine>& machines) {
        const auto append = [](auto& all, auto& ptr, const auto& some) {
            all.insert(all.end(), some.begin(), some.end());
            ptr.push_back(static_cast<std::int64_t>(all.size()));
        };
        for (const Machine& m : machines) {
            gamma.push_back(static_cast<float>(m.gamma));
            append(sv, sv_ptr, m.sv);
            append(classes, class_ptr, m.classes);
            class_sv.insert(class_sv.end(), m.class_sv.begin(), m.class_sv.end());
            append(coef, coef_ptr, m.coef);
            append(bias, bias_ptr, m.bias);
        }
    }
    MachineArrays arrays() const {
        return {gamma.data(),
                sv_ptr.data(),
                class_ptr.data(),
                coef_ptr.data(),
                bias_ptr.data(),
                sv.data(),
                classes.data(),
                class_sv.data(),
                coef.data(),
                bias.data(),
                static_cast<std::int64_t>(gamma.size())};
    }
};

std::vector<double> decide(const Example& e, const std::vector<Machine>& machines, const Kernel& kernel,
                           Team& team) {
    std::vector<double> decisions(e.n_decisions());
    const auto routes = all_of(static_cast<int>(e.queries.n()));
    evaluate(e.points.rows(), Flat(machines).arrays(), kernel, e.queries.rows(), routes.data(), e.n_classes,
             decisions.data(), team);
    return decisions;
}

double difference(const std::vector<double>& a, const std::vector<double>& b) {
    double most = 0.0;
    for (std::size_t i = 0; i < a.size(); ++i) most = std::max(most, std::abs(a[i] - b[i]));
    return most;
}

double kernel_value(Kernel kernel, double gamma, const float* x, const float* y) {
    double dot = 0.0, squared = 0.0;
    for (int f = 0; f < d; ++f) {
        dot += static_cast<double>(x[f]) * y[f];
        squared += (static_cast<double>(x[f]) - y[f]) * (static_cast<double>(x[f]) - y[f]);
    }
    kernel.gamma = gamma;
    return kernel.kind == KernelKind::rbf ? std::exp(-gamma * squared) : kernel.from_dot(dot);
}

// One query by one machine, from the documented layout of its coefficients.
std::vector<double> decide_slowly(const Example& e, const Machine& m, const Kernel& kernel, const float* x) {
    const int c = static_cast<int>(m.classes.size()), n_sv = static_cast<int>(m.sv.size());
    std::vector<double> votes(c), confidence(c), outputs;
    for (int a = 0; a < c; ++a)
        for (int b = a + 1; b < c; ++b) {
            double output = m.bias[outputs.size()];
            for (int i = 0; i < n_sv; ++i) {
                const std::int32_t target = e.targets[m.sv[i]];
                const int row = target == m.classes[a] ? b - 1 : target == m.classes[b] ? a : -1;
                if (row >= 0)
                    output +=
                        m.coef[row * n_sv + i] * kernel_value(kernel, m.gamma, x, e.points.rows()[m.sv[i]]);
            }
            outputs.push_back(output);
            votes[output > 0 ? b : a] += 1.0;
            confidence[b] += output;
            confidence[a] -= output;
        }
    if (e.n_classes == 2) return {c == 2 ? outputs[0] : 2.0 * m.classes[0] - 1.0};
    std::vector<double> decisions(e.n_classes, -1.0);
    for (int a = 0; a < c; ++a)
        decisions[m.classes[a]] = votes[a] + confidence[a] / (3.0 * (std::abs(confidence[a]) + 1.0));
    return decisions;
}

void kept_and_thrown_away_machines_agree() {
    Team one(1), four(4);
    for (const int n_classes : {2, 3, 4})
        for (const Kernel& kernel : {rbf, linear, quadratic}) {
            const Example e(n_classes);
            const Settings settings = settings_of(kernel, kernel.kind == KernelKind::rbf);
            const auto machines = train(e.data(), e.list(), settings, e.C.data(), nullptr, four);
            const auto kept = decide(e, machines, kernel, four);
            assert(kept ==
                   decide(e, train(e.data(), e.list(), settings, e.C.data(), nullptr, one), kernel, one));
            std::vector<double> thrown_away(kept.size());
            train_and_evaluate(e.data(), e.list(), settings, e.C.data(), nullptr, e.queries.rows(), n_classes,
                               thrown_away.data(), four);
            assert(difference(kept, thrown_away) < 1e-4);  // a kept gamma is in single precision

            std::vector<double> slowly;
            for (std::int64_t q = 0; q < e.queries.n(); ++q)
                for (const double decision : decide_slowly(e, machines[q], kernel, e.queries.rows()[q]))
                    slowly.push_back(decision);
            assert(difference(kept, slowly) < 1e-4);
        }
}

void machines_are_as_documented() {
    Team team(2);
    const Example e(3);
    int unanimous = 0, three_classes = 0;
    for (const Machine& m : train(e.data(), e.list(), settings_of(rbf, true), e.C.data(), nullptr, team)) {
        const std::size_t c = m.classes.size();
        assert(std::ranges::is_sorted(m.classes) && m.class_sv.size() == c);
        assert(m.bias.size() == c * (c - 1) / 2 && m.coef.size() == (c - 1) * m.sv.size());
        std::size_t at = 0;
        for (std::size_t a = 0; a < c; ++a)
            for (std::int32_t i = 0; i < m.class_sv[a]; ++i) assert(e.targets[m.sv[at++]] == m.classes[a]);
        assert(at == m.sv.size() && (c == 1) == m.sv.empty());
        unanimous += c == 1;
        three_classes += c == 3;
    }
    assert(unanimous > 0 && three_classes > 0);
}

void unanimous_machines_decide() {
    Team team(1);
    Example e(2);
    for (const int only : {0, 1}) {
        std::ranges::fill(e.targets, only);
        const auto machines = train(e.data(), e.list(), settings_of(rbf, true), e.C.data(), nullptr, team);
        for (const double decision : decide(e, machines, rbf, team)) assert(decision == 2.0 * only - 1.0);
    }
    Example three(3);
    std::ranges::fill(three.targets, 1);
    const auto machines =
        train(three.data(), three.list(), settings_of(rbf, true), three.C.data(), nullptr, team);
    const auto decisions = decide(three, machines, rbf, team);
    for (std::size_t q = 0; q < decisions.size(); q += 3)
        assert(decisions[q] == -1.0 && decisions[q + 1] == 0.0 && decisions[q + 2] == -1.0);
}

// Rows on demand lead to the optimum of the whole matrix; also for pairs of classes of few points.
void a_cache_too_small_for_the_matrix() {
    Team team(2);
    for (const int n_classes : {2, 3, 4})
        for (const Kernel& kernel : {rbf, linear}) {
            Example e(n_classes);
            for (const std::int32_t rare : {0, n_classes - 1})  // leave one point of these in the first list
                for (int h = 0, left = 0; h < k; ++h) {
                    std::int32_t& target = e.targets[e.neighbourhoods[h]];
                    if (target == rare && left++) target = n_classes / 2;
                }
            const auto decisions = [&](std::int64_t cache_bytes) {
                const Settings settings = settings_of(kernel, true, cache_bytes);
                return decide(e, train(e.data(), e.list(), settings, e.C.data(), nullptr, team), kernel,
                              team);
            };
            const auto dense = decisions(large_cache);
            for (const std::int64_t bytes : {0, 1000, 8000})
                assert(difference(decisions(bytes), dense) < (n_classes == 2 ? 0.01 : 0.05));
        }
}

void parameters_of_single_machines() {
    Team team(2);
    Example e(2);
    std::vector<float> gammas(e.queries.n(), 0.0f);
    gammas[3] = 7.0f;
    e.C[4] = 1e-3f;
    const auto machines = train(e.data(), e.list(), settings_of(rbf, false), e.C.data(), gammas.data(), team);
    for (std::size_t m = 0; m < machines.size(); ++m) {
        if (machines[m].sv.empty()) continue;
        assert(machines[m].gamma == (m == 3 ? 7.0 : rbf.gamma));
        for (std::size_t i = 0; i < machines[m].sv.size(); ++i)
            assert(std::abs(machines[m].coef[i]) <= e.C[m] * e.weights[machines[m].sv[i]] * (1 + 1e-6f));
    }
}

// Held-out points, one fold after the other, by machines that were never shown them.
double errors_slowly(const Example& e, std::int64_t m, const Kernel& kernel, float C, int n_internal,
                     int n_folds) {
    Team team(1);
    int wrong = 0;
    for (int fold = 0; fold < n_folds; ++fold) {
        std::vector<std::int32_t> shown;
        for (int i = 0; i < k; ++i)
            if (i >= n_internal || i % n_folds != fold) shown.push_back(e.list()[m][i]);
        const NeighbourhoodList list{shown.data(), 1, static_cast<int>(shown.size())};
        const auto machine = train(e.data(), list, settings_of(kernel, false), &C, nullptr, team).front();
        for (int i = fold; i < n_internal; i += n_folds) {
            const std::int32_t point = e.list()[m][i];
            const auto decision = decide_slowly(e, machine, kernel, e.points.rows()[point]);
            const int predicted =
                e.n_classes == 2 ? decision[0] > 0
                                 : static_cast<int>(std::ranges::max_element(decision) - decision.begin());
            wrong += predicted != e.targets[point];
        }
    }
    return static_cast<double>(wrong) / n_internal;
}

void cross_validation_holds_points_out() {
    Team one(1), four(4);
    const std::vector<float> C{0.1f, 1.0f, 10.0f};
    constexpr int n_internal = 22, n_folds = 4, n_some = 6;
    for (const int n_classes : {2, 3})
        for (const Kernel& kernel : {rbf, quadratic}) {
            const Example e(n_classes);
            const NeighbourhoodList some{e.neighbourhoods.data(), n_some, k};
            std::vector<double> errors(n_some * C.size()), few_rows(errors.size());
            cross_validate(e.data(), some, {settings_of(kernel, false)}, n_internal, n_folds, C,
                           errors.data(), one);
            cross_validate(e.data(), some, {settings_of(kernel, false, 0)}, n_internal, n_folds, C,
                           few_rows.data(), four);
            constexpr double one_point = 1.001 / n_internal;  // an output of nearly zero may fall either way
            assert(difference(errors, few_rows) <= one_point);
            for (std::size_t at = 0; at < errors.size(); ++at)
                assert(std::abs(errors[at] - errors_slowly(e, static_cast<std::int64_t>(at / C.size()),
                                                           kernel, C[at % C.size()], n_internal, n_folds)) <=
                       one_point);
        }
}

void cross_validation_does_not_depend_on_threads() {
    const Example e(3);
    std::vector<Settings> candidates(4, settings_of(rbf, true));
    for (int p = 0; p < 4; ++p) candidates[p].percentile = 1.0 + 30.0 * p;
    const std::vector<float> C{1.0f, 4.0f, 16.0f};
    const auto errors = [&](int n_threads, std::int64_t n, int n_internal, int n_folds) {
        Team team(n_threads);
        std::vector<double> out(n * candidates.size() * C.size(), -1.0);
        cross_validate(e.data(), {e.neighbourhoods.data(), n, k}, candidates, n_internal, n_folds, C,
                       out.data(), team);
        for (const double error : out) assert(error >= 0.0 && error <= 1.0);
        return out;
    };
    for (const std::int64_t n : {1, 3, 10}) assert(errors(1, n, 25, 5) == errors(4, n, 25, 5));
    assert(errors(1, 2, 3, 10) == errors(4, 2, 3, 3));  // never more folds than points held out
    assert(errors(1, 2, k, k) == errors(4, 2, k, k));   // one point at a time
}

}  // namespace

int main() {
    kept_and_thrown_away_machines_agree();
    machines_are_as_documented();
    unanimous_machines_decide();
    a_cache_too_small_for_the_matrix();
    parameters_of_single_machines();
    cross_validation_holds_points_out();
    cross_validation_does_not_depend_on_threads();
}
