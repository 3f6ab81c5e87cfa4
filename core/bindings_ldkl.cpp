// Local deep kernel learning as Python sees it.
#include <nanobind/stl/tuple.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "bindings.hpp"
#include "ldkl.hpp"
#include "ldkl_training.hpp"

namespace vicinal {

namespace {

// sigma, the constant feature, products of pairs as global features, compositional gates
using FormTuple = std::tuple<double, double, bool, bool>;

ForestView view_of(const In<float, 2>& splits, const In<float, 2>& gates, const In<float, 3>& weights,
                   const In<std::int32_t, 2>& children, const In<std::int32_t, 1>& roots,
                   const FormTuple& form) {
    const auto [sigma, constant, quadratic, compositional] = form;
    const Rows s = rows(splits), g = rows(gates);
    const auto n_outputs = static_cast<int>(weights.shape(1));
    const int n_global = quadratic ? n_products(g.d) : g.d;
    require(s.d == g.d && g.n >= 1 && s.n < g.n && static_cast<std::int64_t>(weights.shape(0)) == g.n &&
                n_outputs >= 1 && static_cast<int>(weights.shape(2)) == n_global &&
                static_cast<std::int64_t>(children.shape(0)) == s.n && children.shape(1) == 2 &&
                roots.shape(0) >= 1,
            "the forest's arrays do not fit together");
    require(g.n * n_outputs < (std::int64_t{1} << 31) - lanes, "the forest is too large");
    require_below(roots.data(), roots.size(), g.n, "a root does not exist");
    for (std::int64_t k = 0; k < 2 * s.n; ++k) {  // ascending, so that every walk ends
        const std::int32_t child = children.data()[k];
        require(child == -1 || (child > k / 2 && child < g.n),
                "a child does not exist or precedes its parent");
    }
    return {s,
            g,
            {weights.data(), g.n * n_outputs, n_global},
            children.data(),
            {roots.data(), roots.data() + roots.size()},
            n_outputs,
            static_cast<float>(sigma),
            static_cast<float>(constant),
            quadratic,
            compositional};
}

Out<float> score(const Forest& forest, const In<float, 2>& queries, int n_threads) {
    require(static_cast<int>(queries.shape(1)) == forest.n_features(),
            "queries and forest differ in their number of features");
    const std::size_t n = queries.shape(0), c = forest.n_outputs();
    std::vector<float> scores(n * c);
    with_team(n_threads, [&](Team& team) { forest.score(rows(queries), scores.data(), team); });
    return own(std::move(scores), {n, c});
}

// trees, depth, outputs, features
using ShapeTuple = std::tuple<int, int, int, int>;
// loss, joint, threshold, dense, paths, decay of splits, gates and machines
using DescentTuple = std::tuple<int, bool, double, bool, bool, double, double, double>;

SoftForest soft_forest(const ShapeTuple& shape, const FormTuple& form) {
    const auto [n_trees, depth, n_outputs, n_features] = shape;
    const auto [sigma, constant, quadratic, compositional] = form;
    require(n_trees >= 1 && depth >= 1 && depth <= 20 && n_outputs >= 1 && n_features >= 1,
            "a forest needs trees of 1 to 20 levels, outputs and features");
    const SoftForest forest{n_trees,
                            depth,
                            n_outputs,
                            n_features,
                            static_cast<float>(sigma),
                            static_cast<float>(constant),
                            quadratic,
                            compositional};
    require(forest.n_nodes() * static_cast<double>(forest.row()) * n_trees < 1e10, "the forest is too large");
    return forest;
}

Descent descent_of(const DescentTuple& t) {
    const auto [loss, joint, threshold, dense, paths, splits, gates, machines] = t;
    require(loss >= 0 && loss <= 3, "unknown loss");
    return {static_cast<Loss>(loss),
            joint,
            static_cast<float>(threshold),
            dense,
            paths,
            {static_cast<float>(splits), static_cast<float>(gates), static_cast<float>(machines)}};
}

Samples samples_of(const SoftForest& forest, const In<float, 2>& points, const In<float, 1>& targets,
                   const In<float, 1>& weights) {
    require(static_cast<int>(points.shape(1)) == forest.n_features && targets.shape(0) == points.shape(0) &&
                weights.shape(0) == points.shape(0),
            "points, targets, weights and forest do not fit together");
    if (forest.n_outputs > 1)
        for (std::size_t i = 0; i < targets.size(); ++i)
            require(targets.data()[i] >= 0 && targets.data()[i] < static_cast<float>(forest.n_outputs),
                    "a target does not exist");
    return {rows(points), targets.data(), weights.data()};
}

Out<double> descend_forest(const ShapeTuple& shape, const FormTuple& form, const DescentTuple& descent,
                           const In<float, 2>& points, const In<float, 1>& targets,
                           const In<float, 1>& weights, const In<std::int32_t, 1>& order, int batch,
                           const In<float, 1>& rates, const In<float, 1>& sharpness, std::int64_t n_before,
                           InOut<float, 1> parameters, InOut<float, 1> moments, int n_threads) {
    const SoftForest forest = soft_forest(shape, form);
    const Samples samples = samples_of(forest, points, targets, weights);
    const auto size = static_cast<std::size_t>(forest.size());
    require(parameters.size() == size && moments.size() == 2 * size,
            "parameters and moments do not fit the forest");
    require(batch >= 1 && batch <= (1 << 24), "a batch holds between 1 and 2^24 samples");
    const std::size_t n_steps = (order.size() + batch - 1) / batch;
    require(rates.size() == n_steps && sharpness.size() == n_steps,
            "every step needs a rate and a sharpness");
    require_below(order.data(), order.size(), samples.points.n, "a sample does not exist");
    // Copies, on whole cache lines; the caller's arrays change only if all went well.
    AlignedVector<float> p(parameters.data(), parameters.data() + size);
    AlignedVector<float> m(moments.data(), moments.data() + 2 * size);
    std::vector<double> losses = with_team(n_threads, [&](Team& team) {
        return descend(forest, descent_of(descent), samples,
                       {order.data(), static_cast<std::int64_t>(order.size()), batch, rates.data(),
                        sharpness.data(), n_before},
                       p.data(), m.data(), team);
    });
    std::copy(p.begin(), p.end(), parameters.data());
    std::copy(m.begin(), m.end(), moments.data());
    return own(std::move(losses));
}

nb::tuple gradient_of(const ShapeTuple& shape, const FormTuple& form, const DescentTuple& descent,
                      const In<float, 2>& points, const In<float, 1>& targets, const In<float, 1>& weights,
                      double sharpness, const In<float, 1>& parameters, int n_threads) {
    const SoftForest forest = soft_forest(shape, form);
    const Samples samples = samples_of(forest, points, targets, weights);
    require(parameters.size() == static_cast<std::size_t>(forest.size()), "parameters do not fit the forest");
    std::vector<float> gradient(parameters.size());
    const double loss = with_team(n_threads, [&](Team& team) {
        return loss_gradient(forest, descent_of(descent), samples, static_cast<float>(sharpness),
                             parameters.data(), gradient.data(), team);
    });
    return nb::make_tuple(loss, own(std::move(gradient)));
}

Out<float> soft_score(const ShapeTuple& shape, const FormTuple& form, const DescentTuple& descent,
                      const In<float, 2>& points, double sharpness, const In<float, 1>& parameters,
                      int n_threads) {
    const SoftForest forest = soft_forest(shape, form);
    require(static_cast<int>(points.shape(1)) == forest.n_features &&
                parameters.size() == static_cast<std::size_t>(forest.size()),
            "points, parameters and forest do not fit together");
    const std::size_t n = points.shape(0), c = forest.n_outputs;
    std::vector<float> scores(n * c);
    with_team(n_threads, [&](Team& team) {
        soft_scores(forest, descent_of(descent), rows(points), static_cast<float>(sharpness),
                    parameters.data(), scores.data(), team);
    });
    return own(std::move(scores), {n, c});
}

}  // namespace

void bind_ldkl(nb::module_& m) {
    nb::class_<Forest>(m, "LocalForest")
        .def(
            "__init__",
            [](Forest* self, const In<float, 2>& splits, const In<float, 2>& gates,
               const In<float, 3>& weights, const In<std::int32_t, 2>& children,
               const In<std::int32_t, 1>& roots, const FormTuple& form) {
                new (self) Forest(view_of(splits, gates, weights, children, roots, form));
            },
            nb::arg("splits"), nb::arg("gates"), nb::arg("weights"), nb::arg("children"), nb::arg("roots"),
            nb::arg("form"))
        .def("score", &score, nb::arg("queries"), nb::arg("n_threads"));
    m.def("local_descend", &descend_forest, nb::arg("shape"), nb::arg("form"), nb::arg("descent"),
          nb::arg("points"), nb::arg("targets"), nb::arg("weights"), nb::arg("order"), nb::arg("batch"),
          nb::arg("rates"), nb::arg("sharpness"), nb::arg("n_before"), nb::arg("parameters").noconvert(),
          nb::arg("moments").noconvert(), nb::arg("n_threads"));
    m.def("local_gradient", &gradient_of, nb::arg("shape"), nb::arg("form"), nb::arg("descent"),
          nb::arg("points"), nb::arg("targets"), nb::arg("weights"), nb::arg("sharpness"),
          nb::arg("parameters"), nb::arg("n_threads"));
    m.def("local_soft_scores", &soft_score, nb::arg("shape"), nb::arg("form"), nb::arg("descent"),
          nb::arg("points"), nb::arg("sharpness"), nb::arg("parameters"), nb::arg("n_threads"));
}

}  // namespace vicinal
