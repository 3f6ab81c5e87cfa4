// Local deep kernel learning: trees of linear machines, of which a query meets one path only.
//
//   C. Jose, P. Goyal, P. Aggrwal, M. Varma: Local deep kernel learning for efficient non-linear SVM
//   prediction, ICML 2013.
//
// Given: trees whose node k has a split theta_k (if it is an inner node), a gate theta'_k and a linear
// machine w_k for each output. At an inner node a query x goes on to the child on its side of the split.
// Finds, for each output, the sum over the nodes that x meets of
//   tanh(sigma theta'_k . x) (w_k . x)            the paper's Eq. 10
// or, in the compositional form, with the product of the gates met so far in place of the gate (Eq. 9).
// A constant feature stands in place of a bias. The global features, which w_k multiplies, may be the
// products of all pairs of features instead of the features.
//
// Cost of a query in a tree of `depth` levels: depth (2 + outputs) - 1 dot products, and as many rows of
// parameters read. Sixteen queries walk side by side: what the next node of each needs is fetched while
// the others compute.
#pragma once

#include <cstdint>
#include <vector>

#include "parallel.hpp"
#include "points.hpp"

namespace vicinal {

// The layout of a forest as others keep it: inner nodes of all trees first, leaves after them.
struct ForestView {
    Rows splits;                   // of the inner nodes
    Rows gates;                    // of all nodes
    Rows weights;                  // a row for each node and output
    const std::int32_t* children;  // two for each inner node: the negative side's, the positive side's; or -1
    std::vector<std::int32_t> roots;
    int n_outputs;
    float sigma, constant;
    bool quadratic, compositional;

    std::int64_t n_inner() const { return splits.n; }
    std::int64_t n_nodes() const { return gates.n; }
    int n_local() const { return gates.d; }  // features and the constant
};

inline int n_products(int n) { return n * (n + 1) / 2; }

// Products x_i x_j with i <= j, row by row of the upper triangle.
inline void pair_products(const float* x, int n, float* out) {
    for (int i = 0; i < n; ++i)
        for (int j = i; j < n; ++j) *out++ = x[i] * x[j];
}

// A forest packed in the order in which its numbers are read: of each node the gate, the machines and the
// split, each padded to whole vectors. The last node is where ended walks are: all zeros.
class Forest {
  public:
    explicit Forest(const ForestView& view);

    // Scores of queries without the constant feature: n x n_outputs.
    void score(const Rows& queries, float* scores, Team& team) const;

    int n_features() const { return n_local_ - 1; }
    int n_outputs() const { return n_outputs_; }

  private:
    class Walk;
    struct Node {
        std::int64_t at;  // its first number in packed_
        std::int32_t children[2];
    };
    int n_local_, n_outputs_, local_width_, global_width_;
    float sigma_, constant_;
    bool quadratic_, compositional_;
    std::int32_t n_inner_;
    std::vector<Node> nodes_;
    std::vector<std::int32_t> roots_;
    AlignedVector<float> packed_;
};

}  // namespace vicinal
