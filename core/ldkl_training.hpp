// Training of local deep kernel learning: stochastic descent on complete trees whose splits are soft.
//
// Solves: the least mean loss of the scores
//   sum over trees and nodes k of  I_k(x) tanh(sigma theta'_k . x) (w_k . x)
// where I_k(x) is the product over the nodes above k of (1 -+ tanh(s theta . x)) / 2, the share of x that
// reaches k. The sharpness s grows from step to step, until all of x takes one path.
//
// Two regimes. While splits are soft, a node that most samples reach is computed for all of a chunk of
// samples at once: a blocked matrix product. As splits harden, a sample is followed only to the nodes
// where more than `threshold` of it arrives: lists of pairs (node, sample), sixteen pairs at a time. Each
// node of each chunk takes the regime that fits it.
//
// Gradients. Let D_k be what the subtree of k adds to the loss to first order, for a sample that is all
// at k: D_k = delta . (gate w_k x) + (1 - t) / 2 D_left + (1 + t) / 2 D_right, from the leaves upwards.
// Then the coefficients with which the sample enters the gradients of theta, theta' and w are
//   I s (1 - t^2) (D_right - D_left) / 2,   I sigma (1 - gate^2) (delta . w_k x),   I gate delta.
//
// Threads: samples are cut into chunks and nodes into blocks, whatever the number of threads. Chunks
// produce coefficients; then each node adds its samples up in their order and takes its step, so that no
// sum is shared and nothing is locked.
//
// Cost of a step for one output: 6 d multiply-adds for every pair, half of them for the gradients, and
// one pass over parameters and moments.
#pragma once

#include <cstdint>
#include <vector>

#include "ldkl.hpp"

namespace vicinal {

// With one score for each of several classes: softmax, and the hinge of Crammer & Singer.
enum class Loss : int { logistic, hinge, squared_hinge, squared };

// Complete trees. The node below k on the negative side is 2 k + 1, on the positive side 2 k + 2. Each
// has one row of parameters: split, gate, machines, each padded to whole vectors; a leaf's split is unused.
struct SoftForest {
    int n_trees, depth, n_outputs, n_features;
    float sigma, constant;
    bool quadratic, compositional;

    int n_nodes() const { return (1 << depth) - 1; }
    int n_inner() const { return (1 << (depth - 1)) - 1; }
    int n_local() const { return n_features + 1; }
    int n_global() const { return quadratic ? n_products(n_local()) : n_local(); }
    int local_width() const { return padded(n_local()); }
    int global_width() const { return padded(n_global()); }
    std::int64_t row() const {
        return 2 * local_width() + static_cast<std::int64_t>(n_outputs) * global_width();
    }
    std::int64_t size() const { return n_trees * n_nodes() * row(); }
};

// Targets are codes of classes, or numbers for the squared loss.
struct Samples {
    Rows points;
    const float *targets, *weights;
};

struct Descent {
    Loss loss;
    bool joint;         // trees share one loss, else each has its own
    float threshold;    // of the share of a sample below which it is not followed
    bool dense, paths;  // regimes in use
    float decay[3];     // of splits, gates and machines
    float beta1 = 0.9f, beta2 = 0.999f;
};

// One step for each `batch` entries of `order`; the steps before them made `n_before`.
struct Steps {
    const std::int32_t* order;
    std::int64_t n;
    int batch;
    const float *rates, *sharpness;
    std::int64_t n_before;
};

// Takes the steps; returns the mean loss of each, and stops after one that is not finite.
std::vector<double> descend(const SoftForest& forest, const Descent& descent, const Samples& samples,
                            const Steps& steps, float* parameters, float* moments, Team& team);

// The mean loss of all samples and its gradient, by the same code.
double loss_gradient(const SoftForest& forest, const Descent& descent, const Samples& samples,
                     float sharpness, const float* parameters, float* gradient, Team& team);

// Soft scores: n x n_outputs.
void soft_scores(const SoftForest& forest, const Descent& descent, const Rows& points, float sharpness,
                 const float* parameters, float* scores, Team& team);

}  // namespace vicinal
