// Tiles of kernel values and their weighted sums against sums in double precision, in any company.
#include "expansion.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <vector>

#include "random.hpp"

using namespace vicinal;

namespace {

void check(int n, int m, int d, int n_outputs, const Kernel& kernel) {
    const Points points = normal_points(n, d, 1), vectors = normal_points(m, d, 2);
    Random random(3);
    std::vector<double> coef(static_cast<std::size_t>(m) * n_outputs), bias(n_outputs);
    for (double& x : coef) x = random.normal();
    for (double& x : bias) x = random.normal();

    const KernelTiles tiles(vectors.rows(), kernel);
    Team one(1), three(3);
    std::vector<float> values(static_cast<std::size_t>(n) * m);
    std::vector<double> sums(static_cast<std::size_t>(n) * n_outputs), again(sums), alone(n_outputs);
    tiles.values(points.rows(), values.data(), three);
    tiles.weighted_sums(points.rows(), coef.data(), bias.data(), n_outputs, sums.data(), one);
    tiles.weighted_sums(points.rows(), coef.data(), bias.data(), n_outputs, again.data(), three);
    assert(sums == again);

    for (int i = 0; i < n; ++i) {
        std::vector<double> exact(bias);
        double size = 1.0;
        for (int j = 0; j < m; ++j) {
            double dot = 0.0, squared = 0.0;
            for (int f = 0; f < d; ++f) {
                const double x = points.rows()[i][f], z = vectors.rows()[j][f];
                dot += x * z;
                squared += (x - z) * (x - z);
            }
            const double value =
                kernel.kind == KernelKind::rbf ? std::exp(-kernel.gamma * squared) : kernel.from_dot(dot);
            assert(std::abs(values[i * m + j] - value) <= 1e-4 * std::max(1.0, std::abs(value)));
            for (int k = 0; k < n_outputs; ++k) {
                exact[k] += value * coef[j * n_outputs + k];
                size += std::abs(value * coef[j * n_outputs + k]);
            }
        }
        for (int k = 0; k < n_outputs; ++k)
            assert(std::abs(sums[i * n_outputs + k] - exact[k]) <= 1e-5 * size);
        tiles.weighted_sums({points.rows()[i], 1, d}, coef.data(), bias.data(), n_outputs, alone.data(), one);
        for (int k = 0; k < n_outputs; ++k) assert(alone[k] == sums[i * n_outputs + k]);
    }
}

}  // namespace

int main() {
    const Kernel kernels[] = {{KernelKind::rbf, 0.2, 0.0, 1},
                              {KernelKind::polynomial, 0.3, 1.0, 3},
                              {KernelKind::linear, 1.5, 0.0, 1}};
    for (const Kernel& kernel : kernels)
        for (const int n : {1, 7, 65, 130})
            for (const int m : {1, 16, 33})
                for (const int d : {1, 5, 40}) check(n, m, d, n % 2 ? 1 : 6, kernel);
}
