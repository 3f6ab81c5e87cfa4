// Gradients of soft trees against differences of their loss, in all regimes.
#include <cassert>
#include <cmath>

#include "ldkl_training.hpp"
#include "random.hpp"

using namespace vicinal;

namespace {

struct Problem {
    SoftForest forest;
    Points points;
    std::vector<float> targets, weights, parameters;

    Problem(const SoftForest& shape, int n)
        : forest(shape), points(normal_points(n, shape.n_features, 3)), parameters(shape.size(), 0.0f) {
        Random random(5);
        for (int i = 0; i < n; ++i) {
            targets.push_back(static_cast<float>(random.below(std::max(2, shape.n_outputs))));
            weights.push_back(0.5f + static_cast<float>(random.uniform()));
        }
        const int d = shape.n_local(), width = shape.local_width(), wide = shape.global_width();
        for (std::int64_t k = 0; k < shape.n_trees * shape.n_nodes(); ++k) {
            float* row = parameters.data() + k * shape.row();
            for (int f = 0; f < d; ++f)
                row[f] = 0.5f * random.normal(), row[width + f] = 0.5f * random.normal();
            for (int o = 0; o < shape.n_outputs; ++o)
                for (int f = 0; f < shape.n_global(); ++f)
                    row[2 * width + o * wide + f] = 0.5f * random.normal();
        }
    }
    Samples samples() const { return {points.rows(), targets.data(), weights.data()}; }
};

// How far the loss is from what its gradient says, over a small step along the gradient.
double misjudged(const Problem& problem, const Descent& how, int n_threads) {
    Team team(n_threads);
    std::vector<float> gradient(problem.parameters.size()), ignored(gradient.size());
    loss_gradient(problem.forest, how, problem.samples(), 1.5f, problem.parameters.data(), gradient.data(),
                  team);
    double squared = 0.0;
    for (const float g : gradient) squared += static_cast<double>(g) * g;
    const double step = 2e-3 / std::sqrt(squared);
    double loss[2];
    for (const int side : {0, 1}) {
        std::vector<float> moved = problem.parameters;
        for (std::size_t i = 0; i < moved.size(); ++i)
            moved[i] += static_cast<float>((side ? step : -step) * gradient[i]);
        loss[side] =
            loss_gradient(problem.forest, how, problem.samples(), 1.5f, moved.data(), ignored.data(), team);
    }
    const double expected = 2.0 * step * squared;
    return std::abs(loss[1] - loss[0] - expected) / (5e-3 * expected + 2e-6 * (1.0 + loss[1]));
}

}  // namespace

int main() {
    for (const bool compositional : {false, true})
        for (const bool quadratic : {false, true})
            for (const auto& [loss, outputs] :
                 {std::pair{Loss::logistic, 1}, {Loss::logistic, 3}, {Loss::squared, 1}})
                for (const int n : {3, 100, 300})
                    for (const auto& [dense, paths] : {std::pair{true, false}, {false, true}, {true, true}}) {
                        const Problem problem({2, 4, outputs, 5, 0.7f, 0.5f, quadratic, compositional}, n);
                        const Descent how{loss, n != 100, 0.0f, dense, paths, {0, 0, 0}};
                        assert(misjudged(problem, how, 2) <= 1.0);
                    }
    return 0;
}
