// The Python module: converts arrays, releases the GIL around all work, maps errors. Nothing else.
//
// Array arguments are C-contiguous and of the type named (the engine's Python side sees to that), and
// every index that the core will follow is checked here, so that nothing is read outside its array.
#include "bindings.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>

#include "cover.hpp"
#include "cover_tree.hpp"
#include "local_svm.hpp"
#include "neighbours.hpp"
#include "nsv.hpp"
#include "sieve.hpp"
#include "smo.hpp"

using namespace vicinal;

namespace {

using KernelTuple = std::tuple<int, double, double, int>;
using SpecTuple = std::tuple<int, double, double, int, double>;

// Points to be indexed: within a reach in which sums of squares stay finite floats.
Rows points_to_index(const In<float, 2>& a) {
    constexpr float reach = 1e15f;
    const Rows points = rows(a);
    require(points.n > 0, "an index needs at least one point");
    bool inside = true;
    for (std::size_t i = 0; i < a.size(); ++i) inside &= std::abs(a.data()[i]) <= reach;
    require(inside, "points must be finite, their coordinates at most 1e15");
    return points;
}

Kernel kernel_of(const KernelTuple& t) {
    const auto [kind, gamma, coef0, degree] = t;
    require(kind >= 0 && kind <= 2, "unknown kind of kernel");
    require(std::isfinite(gamma) && std::isfinite(coef0) && coef0 >= 0 && degree >= 1,
            "gamma must be finite, coef0 finite and not negative, degree at least 1");
    return {static_cast<KernelKind>(kind), gamma, coef0, degree};
}

Settings settings_of(const SpecTuple& spec, double tolerance, double cache_mb) {
    const auto [kind, gamma, coef0, degree, percentile] = spec;
    require(percentile >= 0 && percentile <= 100, "the percentile must lie between 0 and 100");
    require(tolerance > 0, "the tolerance must be positive");
    Settings s{kernel_of({kind, gamma, coef0, degree}), gamma <= 0, percentile, tolerance,
               static_cast<std::int64_t>(std::clamp(cache_mb, 0.0, 1e9) * 1e6)};
    if (s.kernel.kind != KernelKind::rbf) s.local_gamma = false;
    return s;
}

// --- Neighbours ---

class NeighbourIndex {
  public:
    NeighbourIndex(In<float, 2> points, const std::string& structure, double base, const KernelTuple& metric,
                   int n_threads)
        : points_(points), metric_{kernel_of(metric), points_to_index(points).d} {
        require(structure == "tree" || structure == "scan", "structure must be 'tree' or 'scan'");
        with_team(n_threads, [&](Team& team) {
            if (structure == "tree")
                tree_ = std::make_unique<CoverTree>(rows(points_), metric_, base, team);
            else
                scan_ = std::make_unique<Scan>(rows(points_), metric_, team);
        });
    }

    NeighbourIndex(In<float, 2> points, const KernelTuple& metric, CoverTree::State state, int n_threads)
        : points_(points), metric_{kernel_of(metric), points_to_index(points).d} {
        with_team(n_threads, [&](Team& team) {
            tree_ = std::make_unique<CoverTree>(rows(points_), metric_, std::move(state), team);
        });
    }

    // Lets a scan answer queries for one neighbour by a sieve.
    void sift(const In<double, 2>& axes, const In<double, 1>& origin, int n_threads) {
        const auto d = static_cast<std::size_t>(metric_.d);
        require(scan_ && metric_.kernel.euclidean(), "only a Euclidean scan has a sieve");
        require(axes.shape(0) == Sieve::n_axes && axes.shape(1) == d && origin.shape(0) == d,
                "the axes of a sieve do not fit the points");
        with_team(n_threads, [&](Team& team) {
            sieve_ = std::make_unique<Sieve>(rows(points_), axes.data(), origin.data(), team);
        });
    }

    nb::tuple query(const In<float, 2>& queries, int k, int n_threads) const {
        require(static_cast<int>(queries.shape(1)) == metric_.d,
                "queries and points differ in their number of features");
        require(k >= 1 && k <= rows(points_).n, "k must lie between 1 and the number of points");
        const std::size_t n = queries.shape(0);
        std::vector<float> squared(n * k);
        std::vector<std::int32_t> index(n * k);
        const std::int64_t n_distances = with_team(n_threads, [&](Team& team) {
            const Neighbourhoods out{squared.data(), index.data()};
            if (tree_) return tree_->query(rows(queries), k, out, team);
            if (k == 1 && sieve_)
                sieve_->query(rows(queries), squared.data(), index.data(), team);
            else
                scan_->query(rows(queries), k, out, team);
            return static_cast<std::int64_t>(n) * rows(points_).n;
        });
        const auto width = static_cast<std::size_t>(k);
        return nb::make_tuple(own(std::move(squared), {n, width}), own(std::move(index), {n, width}),
                              n_distances);
    }

    nb::tuple query_radius(const In<float, 2>& queries, double radius, int n_threads) const {
        require(static_cast<int>(queries.shape(1)) == metric_.d,
                "queries and points differ in their number of features");
        require(radius >= 0, "the radius must not be negative");
        const auto squared = static_cast<float>(radius * radius);
        RadiusNeighbours found = with_team(n_threads, [&](Team& team) {
            return tree_ ? tree_->query_radius(rows(queries), squared, team)
                         : scan_->query_radius(rows(queries), squared, team);
        });
        return nb::make_tuple(own(std::move(found.row_ptr)), own(std::move(found.squared)),
                              own(std::move(found.index)));
    }

    const CoverTree& tree() const {
        require(tree_ != nullptr, "only a tree has levels and parents");
        return *tree_;
    }
    std::size_t n() const { return points_.shape(0); }

  private:
    In<float, 2> points_;  // keeps the array alive
    Metric metric_;
    std::unique_ptr<CoverTree> tree_;
    std::unique_ptr<Scan> scan_;
    std::unique_ptr<Sieve> sieve_;
};

nb::dict tree_state(const NeighbourIndex& index) {
    const CoverTree::State& s = index.tree().state();
    std::vector<std::int32_t> cells;
    std::vector<float> radius;
    for (const auto& c : s.cells) {
        cells.insert(cells.end(), {c.centre, c.begin, c.end, c.first_child, c.n_children});
        radius.push_back(c.radius);
    }
    nb::dict out;
    out["base"] = s.base;
    out["order"] = copy_of(s.order, index.n());
    out["levels"] = copy_of(s.levels, index.n());
    out["parents"] = copy_of(s.parents, index.n());
    out["cells"] = own(std::move(cells), {s.cells.size(), 5});
    out["radius"] = own(std::move(radius));
    return out;
}

NeighbourIndex tree_from_state(In<float, 2> points, const KernelTuple& metric, double base,
                               const In<std::int32_t, 1>& order, const In<std::int32_t, 1>& levels,
                               const In<std::int32_t, 1>& parents, const In<std::int32_t, 2>& cells,
                               const In<float, 1>& radius, int n_threads) {
    const std::size_t n = points.shape(0), n_cells = cells.shape(0);
    const char* broken = "these arrays are not the state of a tree over these points";
    require(n > 0 && order.shape(0) == n && levels.shape(0) == n && parents.shape(0) == n, broken);
    require(n_cells > 0 && n_cells < 2 * n && cells.shape(1) == 5 && radius.shape(0) == n_cells && base > 1,
            broken);
    require_below(order.data(), n, static_cast<std::int64_t>(n), broken);
    std::vector<bool> seen(n);
    for (std::size_t i = 0; i < n; ++i) {
        require(!seen[order.data()[i]], broken);
        seen[order.data()[i]] = true;
    }
    CoverTree::State s{base,
                       {order.data(), order.data() + n},
                       {levels.data(), levels.data() + n},
                       {parents.data(), parents.data() + n},
                       {}};
    for (std::size_t c = 0; c < n_cells; ++c) {
        const std::int32_t* row = cells.data() + 5 * c;
        require(row[0] >= 0 && row[0] < static_cast<std::int64_t>(n) && radius.data()[c] >= 0 &&
                    std::isfinite(radius.data()[c]),
                broken);
        s.cells.push_back({row[0], row[1], row[2], row[3], row[4], radius.data()[c]});
    }
    // The cells are a tree if the root holds all points, if each cell divides its points among its
    // children, two at least, who come later and in one row, and if each but the root is the child of
    // one: a search then ends and visits no cell twice, and no cell goes beyond the points.
    require(s.cells[0].begin == 0 && s.cells[0].end == static_cast<std::int64_t>(n), broken);
    std::vector<bool> hangs(n_cells);
    hangs[0] = true;
    for (std::size_t c = 0; c < n_cells; ++c) {
        const CoverTree::Cell& cell = s.cells[c];
        require(hangs[c] && cell.begin < cell.end, broken);
        if (cell.n_children == 0) continue;
        const std::int64_t last = std::int64_t{cell.first_child} + cell.n_children;
        require(cell.n_children >= 2 && cell.first_child > static_cast<std::int64_t>(c) &&
                    last <= static_cast<std::int64_t>(n_cells),
                broken);
        std::int32_t position = cell.begin;
        for (std::int64_t child = cell.first_child; child < last; ++child) {
            require(!hangs[child] && s.cells[child].begin == position, broken);
            hangs[child] = true;
            position = s.cells[child].end;
        }
        require(position == cell.end, broken);
    }
    return {std::move(points), metric, std::move(s), n_threads};
}

// --- Machines ---

struct DataArrays {
    const In<float, 2>& points;
    const In<std::int32_t, 1>& targets;
    const In<float, 1>& weights;

    Data view() const {
        require(targets.shape(0) == points.shape(0) && weights.shape(0) == points.shape(0),
                "points, targets and weights differ in length");
        return {rows(points), targets.data(), weights.data()};
    }
};

NeighbourhoodList neighbourhoods_of(const In<std::int32_t, 2>& a, std::int64_t n_points) {
    require(a.shape(1) >= 1, "a neighbourhood needs at least one point");
    require_below(a.data(), a.size(), n_points, "a neighbourhood names a point that does not exist");
    return {a.data(), static_cast<std::int64_t>(a.shape(0)), static_cast<int>(a.shape(1))};
}

const float* per_machine(const std::optional<In<float, 1>>& a, std::int64_t n) {
    if (!a) return nullptr;
    require(static_cast<std::int64_t>(a->shape(0)) == n,
            "C and gammas need one value for each neighbourhood");
    return a->data();
}

void require_targets(const Data& data, int n_classes) {
    require_below(data.targets, static_cast<std::size_t>(data.points.n), n_classes,
                  "a target names a class that does not exist");
}

nb::dict train_machines(const In<float, 2>& points, const In<std::int32_t, 1>& targets,
                        const In<float, 1>& weights, const In<std::int32_t, 2>& neighbourhoods,
                        const SpecTuple& spec, const In<float, 1>& C,
                        const std::optional<In<float, 1>>& gammas, double tol, double cache_mb,
                        int n_threads) {
    const Data data = DataArrays{points, targets, weights}.view();
    const NeighbourhoodList list = neighbourhoods_of(neighbourhoods, data.points.n);
    const Settings settings = settings_of(spec, tol, cache_mb);
    const float* C_data = per_machine(C, list.n);
    const float* gamma_data = per_machine(gammas, list.n);
    const std::vector<Machine> machines = with_team(
        n_threads, [&](Team& team) { return train(data, list, settings, C_data, gamma_data, team); });

    std::vector<float> gamma, coef, bias;
    std::vector<std::int64_t> sv_ptr{0}, class_ptr{0}, coef_ptr{0}, bias_ptr{0}, n_iter;
    std::vector<std::int32_t> sv, classes, class_sv;
    const auto append = [](auto& all, const auto& part) { all.insert(all.end(), part.begin(), part.end()); };
    for (const Machine& m : machines) {
        gamma.push_back(static_cast<float>(m.gamma));
        n_iter.push_back(m.n_iter);
        append(sv, m.sv);
        append(classes, m.classes);
        append(class_sv, m.class_sv);
        append(coef, m.coef);
        append(bias, m.bias);
        sv_ptr.push_back(static_cast<std::int64_t>(sv.size()));
        class_ptr.push_back(static_cast<std::int64_t>(classes.size()));
        coef_ptr.push_back(static_cast<std::int64_t>(coef.size()));
        bias_ptr.push_back(static_cast<std::int64_t>(bias.size()));
    }
    nb::dict out;
    out["gamma"] = own(std::move(gamma));
    out["sv_ptr"] = own(std::move(sv_ptr));
    out["sv"] = own(std::move(sv));
    out["class_ptr"] = own(std::move(class_ptr));
    out["classes"] = own(std::move(classes));
    out["class_sv"] = own(std::move(class_sv));
    out["coef_ptr"] = own(std::move(coef_ptr));
    out["coef"] = own(std::move(coef));
    out["bias_ptr"] = own(std::move(bias_ptr));
    out["bias"] = own(std::move(bias));
    out["n_iter"] = own(std::move(n_iter));
    return out;
}

// A ragged array's starts: from 0 to the end of what they point into, never falling.
void require_starts(const In<std::int64_t, 1>& ptr, std::size_t n_machines, std::size_t end) {
    const char* message = "the machines' arrays do not fit together";
    require(ptr.shape(0) == n_machines + 1 && ptr.data()[0] == 0, message);
    require(ptr.data()[n_machines] == static_cast<std::int64_t>(end), message);
    for (std::size_t m = 0; m < n_machines; ++m) require(ptr.data()[m] <= ptr.data()[m + 1], message);
}

Out<double> evaluate_machines(const In<float, 2>& points, const In<float, 1>& gamma,
                              const In<std::int64_t, 1>& sv_ptr, const In<std::int32_t, 1>& sv,
                              const In<std::int64_t, 1>& class_ptr, const In<std::int32_t, 1>& classes,
                              const In<std::int32_t, 1>& class_sv, const In<std::int64_t, 1>& coef_ptr,
                              const In<float, 1>& coef, const In<std::int64_t, 1>& bias_ptr,
                              const In<float, 1>& bias, const In<float, 2>& queries,
                              const In<std::int32_t, 1>& routes, int n_classes, const SpecTuple& spec,
                              int n_threads) {
    const std::size_t n_machines = gamma.shape(0), n = queries.shape(0);
    require(n_classes >= 2, "there must be at least two classes");
    require(queries.shape(1) == points.shape(1), "queries and points differ in their number of features");
    require(routes.shape(0) == n, "every query needs a route");
    require_starts(sv_ptr, n_machines, sv.shape(0));
    require_starts(class_ptr, n_machines, classes.shape(0));
    require_starts(coef_ptr, n_machines, coef.shape(0));
    require_starts(bias_ptr, n_machines, bias.shape(0));
    require(class_sv.shape(0) == classes.shape(0), "the machines' arrays do not fit together");
    require_below(sv.data(), sv.size(), static_cast<std::int64_t>(points.shape(0)),
                  "a support vector does not exist");
    require_below(classes.data(), classes.size(), n_classes, "a machine names a class that does not exist");
    require_below(routes.data(), n, static_cast<std::int64_t>(n_machines), "a route leads to no machine");
    for (std::size_t m = 0; m < n_machines; ++m) {
        const auto run = [&](const In<std::int64_t, 1>& ptr) { return ptr.data()[m + 1] - ptr.data()[m]; };
        const std::int64_t c = run(class_ptr), n_sv = run(sv_ptr);
        std::int64_t counted = 0;
        for (std::int64_t a = class_ptr.data()[m]; a < class_ptr.data()[m + 1]; ++a) {
            require(class_sv.data()[a] >= 0, "the machines' arrays do not fit together");
            counted += class_sv.data()[a];
        }
        require(
            c >= 1 && counted == n_sv && run(coef_ptr) == (c - 1) * n_sv && run(bias_ptr) == c * (c - 1) / 2,
            "the machines' arrays do not fit together");
    }
    const MachineArrays machines{gamma.data(),
                                 sv_ptr.data(),
                                 class_ptr.data(),
                                 coef_ptr.data(),
                                 bias_ptr.data(),
                                 sv.data(),
                                 classes.data(),
                                 class_sv.data(),
                                 coef.data(),
                                 bias.data(),
                                 static_cast<std::int64_t>(n_machines)};
    const Kernel kernel = settings_of(spec, 1.0, 0.0).kernel;
    const std::size_t width = n_classes == 2 ? 1 : n_classes;
    std::vector<double> decisions(n * width);
    with_team(n_threads, [&](Team& team) {
        evaluate(rows(points), machines, kernel, rows(queries), routes.data(), n_classes, decisions.data(),
                 team);
    });
    if (width == 1) return own(std::move(decisions));
    return own(std::move(decisions), {n, width});
}

Out<double> train_and_evaluate_machines(const In<float, 2>& points, const In<std::int32_t, 1>& targets,
                                        const In<float, 1>& weights,
                                        const In<std::int32_t, 2>& neighbourhoods,
                                        const In<float, 2>& queries, int n_classes, const SpecTuple& spec,
                                        const In<float, 1>& C, const std::optional<In<float, 1>>& gammas,
                                        double tol, double cache_mb, int n_threads) {
    const Data data = DataArrays{points, targets, weights}.view();
    const NeighbourhoodList list = neighbourhoods_of(neighbourhoods, data.points.n);
    const std::size_t n = queries.shape(0);
    require(n_classes >= 2, "there must be at least two classes");
    require_targets(data, n_classes);
    require(queries.shape(1) == points.shape(1), "queries and points differ in their number of features");
    require(static_cast<std::int64_t>(n) == list.n, "every query needs a neighbourhood");
    const Settings settings = settings_of(spec, tol, cache_mb);
    const float* C_data = per_machine(C, list.n);
    const float* gamma_data = per_machine(gammas, list.n);
    const std::size_t width = n_classes == 2 ? 1 : n_classes;
    std::vector<double> decisions(n * width);
    with_team(n_threads, [&](Team& team) {
        train_and_evaluate(data, list, settings, C_data, gamma_data, rows(queries), n_classes,
                           decisions.data(), team);
    });
    if (width == 1) return own(std::move(decisions));
    return own(std::move(decisions), {n, width});
}

Out<double> cross_validate_machines(const In<float, 2>& points, const In<std::int32_t, 1>& targets,
                                    const In<float, 1>& weights, const In<std::int32_t, 2>& neighbourhoods,
                                    int n_internal, int n_folds, const std::vector<SpecTuple>& specs,
                                    const std::vector<float>& C, double tol, double cache_mb, int n_threads) {
    const Data data = DataArrays{points, targets, weights}.view();
    const NeighbourhoodList list = neighbourhoods_of(neighbourhoods, data.points.n);
    require(n_internal >= 1 && n_internal <= list.k,
            "n_internal must lie between 1 and the neighbourhood's size");
    require(n_folds >= 2, "n_folds must be at least 2");
    require(!specs.empty() && !C.empty(), "there must be something to choose from");
    for (std::size_t i = 0; i < C.size(); ++i)
        require(C[i] > 0 && (i == 0 || C[i - 1] <= C[i]), "C must be positive and ascending");
    std::vector<Settings> candidates;
    for (const SpecTuple& spec : specs) candidates.push_back(settings_of(spec, tol, cache_mb));
    for (const Settings& s : candidates)
        require(s.kernel.kind == candidates[0].kernel.kind, "candidates must be kernels of one kind");
    const auto n = static_cast<std::size_t>(list.n);
    std::vector<double> errors(n * candidates.size() * C.size());
    with_team(n_threads, [&](Team& team) {
        cross_validate(data, list, candidates, n_internal, n_folds, C, errors.data(), team);
    });
    return own(std::move(errors), {n, candidates.size(), C.size()});
}

Out<bool> accept(const In<std::int32_t, 1>& candidates, const In<std::int32_t, 2>& neighbours, int n_assigned,
                 InOut<std::uint8_t, 1> covered, InOut<std::int32_t, 1> ranks, InOut<std::int32_t, 1> owners,
                 int first_id) {
    const auto n_points = static_cast<std::int64_t>(covered.shape(0));
    require(neighbours.shape(0) == candidates.shape(0), "every candidate needs its neighbours");
    require(ranks.shape(0) == covered.shape(0) && owners.shape(0) == covered.shape(0),
            "covered, ranks and owners differ in length");
    require(n_assigned >= 1 && n_assigned <= static_cast<int>(neighbours.shape(1)),
            "n_assigned must lie between 1 and the number of neighbours");
    require_below(candidates.data(), candidates.size(), n_points, "a candidate does not exist");
    require_below(neighbours.data(), neighbours.size(), n_points, "a neighbour does not exist");
    const std::size_t n = candidates.shape(0);
    auto* accepted = new bool[n];
    nb::capsule owner(accepted, [](void* p) noexcept { delete[] static_cast<bool*>(p); });
    accept_centres(candidates.data(), static_cast<std::int64_t>(n), neighbours.data(),
                   static_cast<int>(neighbours.shape(1)), n_assigned, covered.data(), ranks.data(),
                   owners.data(), first_id, accepted);
    return Out<bool>(accepted, {n}, owner);
}

// --- Nearest support vectors ---

using LevelTuple = std::tuple<int, int, In<float, 2>>;
using SketchTuple =
    std::tuple<In<float, 2>, In<float, 2>, In<float, 2>, In<float, 2>, In<float, 1>, In<float, 1>>;

class EarlyMachineHandle {
  public:
    EarlyMachineHandle(In<float, 2> vectors, const In<std::int32_t, 1>& class_sv, const In<float, 2>& support,
                       const In<float, 1>& bias, const KernelTuple& kernel, const In<float, 2>& axes,
                       const In<std::int32_t, 1>& landmarks, const In<float, 2>& basis)
        : vectors_(vectors) {
        const auto c = static_cast<std::int64_t>(class_sv.shape(0));
        const Rows v = rows(vectors);
        std::int64_t counted = 0;
        for (std::int64_t a = 0; a < c; ++a) {
            require(class_sv.data()[a] >= 0, "the machine's arrays do not fit together");
            counted += class_sv.data()[a];
        }
        require(c >= 2 && v.n > 0 && counted == v.n && static_cast<std::int64_t>(support.shape(0)) == c - 1 &&
                    static_cast<std::int64_t>(support.shape(1)) == v.n &&
                    static_cast<std::int64_t>(bias.shape(0)) == c * (c - 1) / 2,
                "the machine's arrays do not fit together");
        const auto [kind, gamma, coef0, degree] = kernel;
        require(kind >= 0 && kind <= 3, "unknown kind of kernel");
        require(std::isfinite(gamma) && std::isfinite(coef0) && degree >= 1,
                "gamma and coef0 must be finite, degree at least 1");
        require(axes.shape(0) == 0 || static_cast<int>(axes.shape(1)) == v.d,
                "axes and vectors differ in their number of features");
        require(
            landmarks.shape(0) == basis.shape(0) && (basis.shape(0) == 0 || basis.shape(1) == basis.shape(0)),
            "the basis must be square, and have a row for each landmark");
        require_below(landmarks.data(), landmarks.size(), v.n, "a landmark does not exist");
        machine_ = std::make_unique<EarlyMachine>(
            Expansion{v, class_sv.data(), static_cast<int>(c), support.data(), bias.data(),
                      Kernel{static_cast<KernelKind>(kind), gamma, coef0, degree}},
            Axes{
                {axes.data(), static_cast<std::int64_t>(axes.shape(0)), v.d},
                landmarks.data(),
                {basis.data(), static_cast<std::int64_t>(basis.shape(0)), static_cast<int>(basis.shape(0))}});
    }

    nb::tuple answer(const In<float, 2>& queries, const In<float, 2>& weights, const In<float, 1>& bias,
                     const In<float, 1>& linear_thresholds, const std::optional<SketchTuple>& sketch_arrays,
                     const std::vector<LevelTuple>& levels, const In<std::int32_t, 1>& regions,
                     const std::tuple<bool, bool, bool>& walking, int n_threads) const {
        require_queries(queries);
        const auto c = static_cast<std::size_t>(machine_->n_classes());
        const std::size_t n = queries.shape(0), n_rows = weights.shape(0);
        require((n_rows == 0 || n_rows == (c == 2 ? 1 : c)) && bias.shape(0) == n_rows &&
                    (n_rows == 0 || (static_cast<int>(weights.shape(1)) == machine_->n_features() &&
                                     linear_thresholds.shape(0) == c)),
                "the filter does not fit the machine");
        require(regions.shape(0) == 0 || regions.shape(0) == n, "every query needs a region, or none");
        const auto sketch = sketch_of(sketch_arrays);
        std::vector<Level> walks;
        for (const auto& [embedding, n_axes, thresholds] : levels) {
            const std::size_t n_regions = thresholds.shape(0) / c;
            require(n_regions >= 1 && thresholds.shape(0) % c == 0 && thresholds.shape(1) >= 1,
                    "every class needs thresholds");
            require_below(regions.data(), regions.shape(0), static_cast<std::int64_t>(n_regions),
                          "a region has no thresholds");
            require_walk(embedding, n_axes, static_cast<std::int64_t>(thresholds.shape(1)) - 1);
            walks.push_back({static_cast<Embedding>(embedding), n_axes, thresholds.data(),
                             static_cast<int>(thresholds.shape(1)) - 1});
        }
        const LinearFilter filter{{weights.data(), static_cast<std::int64_t>(n_rows), machine_->n_features()},
                                  bias.data(),
                                  linear_thresholds.data()};
        const std::size_t width = c == 2 ? 1 : c;
        std::vector<double> decisions(n * width);
        std::vector<std::int32_t> labels(n), touched(n);
        with_team(n_threads, [&](Team& team) {
            machine_->answer(rows(queries), filter, sketch ? &*sketch : nullptr, walks,
                             regions.shape(0) == 0 ? nullptr : regions.data(), walking_of(walking),
                             {decisions.data(), labels.data(), touched.data()}, team);
        });
        return nb::make_tuple(width == 1 ? own(std::move(decisions)) : own(std::move(decisions), {n, width}),
                              own(std::move(labels)), own(std::move(touched)));
    }

    nb::tuple settle(const In<float, 2>& queries, int n_threads) const {
        require_queries(queries);
        const std::size_t n = queries.shape(0), c = machine_->n_classes();
        std::vector<std::int32_t> winners(n);
        std::vector<float> leanings(n * c);
        with_team(n_threads, [&](Team& team) {
            machine_->settle(rows(queries), winners.data(), leanings.data(), team);
        });
        return nb::make_tuple(own(std::move(winners)), own(std::move(leanings), {n, c}));
    }

    nb::tuple trace(const In<float, 2>& queries, int embedding, int n_axes, int n_steps,
                    const std::tuple<bool, bool, bool>& walking, int n_threads) const {
        require_queries(queries);
        require_walk(embedding, n_axes, n_steps);
        const std::size_t n = queries.shape(0), width = static_cast<std::size_t>(n_steps) + 1;
        std::vector<std::int32_t> leaders(n * width);
        std::vector<float> leanings(n * width);
        with_team(n_threads, [&](Team& team) {
            machine_->trace(rows(queries), static_cast<Embedding>(embedding), n_axes, n_steps,
                            walking_of(walking), leaders.data(), leanings.data(), team);
        });
        return nb::make_tuple(own(std::move(leaders), {n, width}), own(std::move(leanings), {n, width}));
    }

  private:
    static Walking walking_of(const std::tuple<bool, bool, bool>& t) {
        const auto [corrected, weighted, balanced] = t;
        return {corrected, weighted, balanced};
    }
    std::optional<Sketch> sketch_of(const std::optional<SketchTuple>& arrays) const {
        if (!arrays) return {};
        const auto& [axes, landmarks, linear, weights, bias, thresholds] = *arrays;
        const auto c = static_cast<std::size_t>(machine_->n_classes()), n_scores = bias.shape(0);
        require(axes.shape(0) >= 1 && static_cast<int>(axes.shape(1)) == machine_->n_features() &&
                    landmarks.shape(0) >= 1 && landmarks.shape(1) == axes.shape(0) &&
                    n_scores == (c == 2 ? 1 : c) && linear.shape(0) == n_scores &&
                    linear.shape(1) == axes.shape(0) && weights.shape(0) == n_scores &&
                    weights.shape(1) == landmarks.shape(0) && thresholds.shape(0) == c,
                "the sketch does not fit the machine");
        return Sketch(
            {rows(axes), rows(landmarks), rows(linear), rows(weights), bias.data(), thresholds.data()},
            machine_->kernel());
    }
    void require_queries(const In<float, 2>& queries) const {
        require(static_cast<int>(queries.shape(1)) == machine_->n_features(),
                "queries and vectors differ in their number of features");
    }
    void require_walk(int embedding, int n_axes, std::int64_t n_steps) const {
        require(embedding >= 0 && embedding <= 2, "unknown embedding");
        const auto e = static_cast<Embedding>(embedding);
        require(e == Embedding::index || (n_axes >= 1 && n_axes <= machine_->n_axes(e)),
                "the machine has fewer axes");
        require(n_steps >= 0 && n_steps <= machine_->n_steps(e), "there are fewer vectors than steps");
    }

    In<float, 2> vectors_;  // kept alive: the machine reads them
    std::unique_ptr<EarlyMachine> machine_;
};

// The instruction sets that the core is compiled for and this processor has, narrowest first.
std::vector<std::string> instruction_sets() {
    std::vector<std::string> sets{"baseline"};
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        sets.emplace_back("avx2");
        if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
            __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl"))
            sets.emplace_back("avx512");
    }
#endif
    return sets;
}

}  // namespace

NB_MODULE(VICINAL_MODULE, m) {
    nb::set_leak_warnings(false);  // an index alive when the interpreter ends is no fault
    m.def("instruction_sets", &instruction_sets);
    m.attr("DUPLICATE") = static_cast<std::int64_t>(CoverTree::duplicate);

    m.attr("MOST_ITERATIONS") = Smo::most_iterations;
    m.attr("SIEVE_AXES") = Sieve::n_axes;

    nb::class_<NeighbourIndex>(m, "NeighbourIndex")
        .def(nb::init<In<float, 2>, const std::string&, double, const KernelTuple&, int>(), nb::arg("points"),
             nb::arg("structure"), nb::arg("base"), nb::arg("metric"), nb::arg("n_threads"))
        .def("query", &NeighbourIndex::query, nb::arg("queries"), nb::arg("k"), nb::arg("n_threads"))
        .def("query_radius", &NeighbourIndex::query_radius, nb::arg("queries"), nb::arg("radius"),
             nb::arg("n_threads"))
        .def("sift", &NeighbourIndex::sift, nb::arg("axes"), nb::arg("origin"), nb::arg("n_threads"))
        .def("levels", [](const NeighbourIndex& i) { return copy_of(i.tree().state().levels, i.n()); })
        .def("parents", [](const NeighbourIndex& i) { return copy_of(i.tree().state().parents, i.n()); })
        .def("base", [](const NeighbourIndex& i) { return i.tree().state().base; })
        .def("state", &tree_state);
    m.def("tree_from_state", &tree_from_state, nb::arg("points"), nb::arg("metric"), nb::arg("base"),
          nb::arg("order"), nb::arg("levels"), nb::arg("parents"), nb::arg("cells"), nb::arg("radius"),
          nb::arg("n_threads"));
    nb::class_<EarlyMachineHandle>(m, "EarlyMachine")
        .def(nb::init<In<float, 2>, const In<std::int32_t, 1>&, const In<float, 2>&, const In<float, 1>&,
                      const KernelTuple&, const In<float, 2>&, const In<std::int32_t, 1>&,
                      const In<float, 2>&>(),
             nb::arg("vectors"), nb::arg("class_sv"), nb::arg("support"), nb::arg("bias"), nb::arg("kernel"),
             nb::arg("axes"), nb::arg("landmarks"), nb::arg("basis"))
        .def("answer", &EarlyMachineHandle::answer, nb::arg("queries"), nb::arg("weights"), nb::arg("bias"),
             nb::arg("linear_thresholds"), nb::arg("sketch").none(), nb::arg("levels"), nb::arg("regions"),
             nb::arg("walking"), nb::arg("n_threads"))
        .def("settle", &EarlyMachineHandle::settle, nb::arg("queries"), nb::arg("n_threads"))
        .def("trace", &EarlyMachineHandle::trace, nb::arg("queries"), nb::arg("embedding"), nb::arg("n_axes"),
             nb::arg("n_steps"), nb::arg("walking"), nb::arg("n_threads"));
    bind_expansion(m);
    bind_ldkl(m);
    m.def("accept_centres", &accept, nb::arg("candidates"), nb::arg("neighbours"), nb::arg("n_assigned"),
          nb::arg("covered").noconvert(), nb::arg("ranks").noconvert(), nb::arg("owners").noconvert(),
          nb::arg("first_id"));
    m.def("train", &train_machines, nb::arg("points"), nb::arg("targets"), nb::arg("weights"),
          nb::arg("neighbourhoods"), nb::arg("spec"), nb::arg("C"), nb::arg("gammas").none(), nb::arg("tol"),
          nb::arg("cache_mb"), nb::arg("n_threads"));
    m.def("evaluate", &evaluate_machines, nb::arg("points"), nb::arg("gamma"), nb::arg("sv_ptr"),
          nb::arg("sv"), nb::arg("class_ptr"), nb::arg("classes"), nb::arg("class_sv"), nb::arg("coef_ptr"),
          nb::arg("coef"), nb::arg("bias_ptr"), nb::arg("bias"), nb::arg("queries"), nb::arg("routes"),
          nb::arg("n_classes"), nb::arg("spec"), nb::arg("n_threads"));
    m.def("train_and_evaluate", &train_and_evaluate_machines, nb::arg("points"), nb::arg("targets"),
          nb::arg("weights"), nb::arg("neighbourhoods"), nb::arg("queries"), nb::arg("n_classes"),
          nb::arg("spec"), nb::arg("C"), nb::arg("gammas").none(), nb::arg("tol"), nb::arg("cache_mb"),
          nb::arg("n_threads"));
    m.def("cross_validate", &cross_validate_machines, nb::arg("points"), nb::arg("targets"),
          nb::arg("weights"), nb::arg("neighbourhoods"), nb::arg("n_internal"), nb::arg("n_folds"),
          nb::arg("specs"), nb::arg("C"), nb::arg("tol"), nb::arg("cache_mb"), nb::arg("n_threads"));
}
