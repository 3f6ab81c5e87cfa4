// Kernel expansions with shared vectors as Python sees them.
#include <nanobind/stl/tuple.h>

#include <cmath>

#include "bindings.hpp"
#include "expansion.hpp"

namespace vicinal {

namespace {

KernelTiles tiles_of(const In<float, 2>& points, const In<float, 2>& vectors,
                     const std::tuple<int, double, double, int>& t) {
    const auto [kind, gamma, coef0, degree] = t;
    require(kind >= 0 && kind <= 2, "unknown kind of kernel");
    require(std::isfinite(gamma) && std::isfinite(coef0) && degree >= 1,
            "gamma and coef0 must be finite, degree at least 1");
    const Rows z = rows(vectors);
    require(z.n > 0, "an expansion needs at least one vector");
    require(points.shape(1) == vectors.shape(1), "points and vectors differ in their number of features");
    return KernelTiles(z, Kernel{static_cast<KernelKind>(kind), gamma, coef0, degree});
}

void kernel_values(const In<float, 2>& points, const In<float, 2>& vectors,
                   const std::tuple<int, double, double, int>& kernel, InOut<float, 2>& out, int n_threads) {
    require(out.shape(0) == points.shape(0) && out.shape(1) == vectors.shape(0),
            "out needs a row for each point and a column for each vector");
    const KernelTiles tiles = tiles_of(points, vectors, kernel);
    with_team(n_threads, [&](Team& team) { tiles.values(rows(points), out.data(), team); });
}

Out<double> expand(const In<float, 2>& points, const In<float, 2>& vectors, const In<double, 2>& coef,
                   const In<double, 1>& bias, const std::tuple<int, double, double, int>& kernel,
                   int n_threads) {
    require(coef.shape(0) == vectors.shape(0) && coef.shape(1) == bias.shape(0),
            "coef needs a row for each vector and a column for each output");
    const KernelTiles tiles = tiles_of(points, vectors, kernel);
    const std::size_t n = points.shape(0), n_outputs = bias.shape(0);
    std::vector<double> out(n * n_outputs);
    with_team(n_threads, [&](Team& team) {
        tiles.weighted_sums(rows(points), coef.data(), bias.data(), static_cast<int>(n_outputs), out.data(),
                            team);
    });
    return own(std::move(out), {n, n_outputs});
}

}  // namespace

void bind_expansion(nb::module_& m) {
    m.def("kernel_values", &kernel_values, nb::arg("points"), nb::arg("vectors"), nb::arg("kernel"),
          nb::arg("out").noconvert(), nb::arg("n_threads"));
    m.def("expand", &expand, nb::arg("points"), nb::arg("vectors"), nb::arg("coef"), nb::arg("bias"),
          nb::arg("kernel"), nb::arg("n_threads"));
}

}  // namespace vicinal
