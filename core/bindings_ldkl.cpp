// Local deep kernel learning as Python sees it.
#include <nanobind/stl/tuple.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "bindings.hpp"
#include "ldkl.hpp"

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
}

}  // namespace vicinal
