// Nearest support vectors: a kernel expansion evaluated only as far as a query needs.
//
//   D. DeCoste, D. Mazzoni: Fast query-time classification with nearest support vectors, ICML 2003.
//
// Given: vectors of c classes, a kernel K, and for every pair of classes an output
//   f_ab(x) = sum over vectors of a: s_i K(v_i, x) - sum over vectors of b: s_i K(v_i, x) + bias
// Finds: the class that wins the vote of the pairs, without all of the sums.
//
// All kernel values of a query are approximated first, in one of three embeddings:
// - pca: dot products on the first principal axes of the vectors, one small dense product;
// - kernel_pca: the best approximation by kernel values with a few of the vectors, the landmarks. Their
//   images in feature space are made orthogonal one after the other (an incomplete Cholesky
//   decomposition), so that dot products on the first n axes ask for the first n landmarks only, and all
//   outputs are sums over the axes whatever the number of vectors;
// - index: blocks of sixteen vectors of a class that lie close together, and one centre in place of each,
//   for rbf with a normal density of the block's variances around it. A step then touches a whole block.
// The query then touches vectors one by one, in an order that the approximations give, and each brings
// its exact term into the outputs. After every step there may be a leader, the class that wins
// all of its pairs; the least of its winning outputs is its leaning. The walk stops where the leaning
// exceeds the threshold of this leader and step. A walk that never does is followed by the exact sums,
// computed anew. For two classes these are the L_k and H_k of the paper: the leaning is |g|. There may
// be several levels of such walks, each on more axes, each for the queries that the last has left.
//
// The outputs of a walk start at the bias, as in the paper, or at their approximations; then an exact
// term takes the place of its approximation, and the error left is that of the vectors untouched.
//
// Cost of a query that the filter leaves, with e axes: (pca) e d multiply-adds for the projection, m e
// for the approximations, m kernel values, m (c - 1) for the outputs; (kernel_pca) e kernel values,
// e^2 / 2 for the axes, e c^2 / 2 for the outputs, and m e for an order if there are steps; (index) m / 16
// kernel values. Then d for every vector touched, and m / 256 comparisons to find it. Nothing is sorted.
#pragma once

#include <cstdint>
#include <vector>

#include "kernel.hpp"
#include "parallel.hpp"
#include "points.hpp"
#include "sketch.hpp"

namespace vicinal {

// Vectors stand together by class. In LIBSVM's layout, `support` is how strongly (>= 0) each vector
// supports its class against each other; pairs a < b of `bias` are positive for b.
struct Expansion {
    Rows vectors;
    const std::int32_t* class_sv;
    int n_classes;
    const float *support, *bias;
    Kernel kernel;
};

struct Walking {
    bool corrected;  // outputs start at their approximations
    bool weighted;   // largest |term| first, else largest kernel value
    bool balanced;   // tug of war: the class of least cumulative weight is next
};

// Linear scores of the classes (of the second of two), whose leaders are believed above a threshold.
struct LinearFilter {
    Rows weights;  // no rows: no filter
    const float *bias, *thresholds;
};

enum class Embedding : int { pca = 0, kernel_pca = 1, index = 2 };

struct Axes {
    Rows principal;                 // most important first
    const std::int32_t* landmarks;  // the vectors that span the axes of the kernel
    Rows basis;                     // lower triangular: from kernel values with them to these axes
};

// One walk: on the first so many axes of an embedding, with a row of n_steps + 1 thresholds for each class
// as leader, region by region.
struct Level {
    Embedding embedding;
    int n_axes;
    const float* thresholds;
    int n_steps;
};

// For two classes one decision a query, else votes and the squeezed sum of outputs for every class.
struct Answers {
    double* decisions;
    std::int32_t *labels, *n_touched;
};

class EarlyMachine {
  public:
    EarlyMachine(const Expansion& expansion, const Axes& axes);

    // Without levels every query that the filter leaves is answered exactly. `regions` names the set of
    // thresholds of each query; null: all have the first.
    void answer(const Rows& queries, const LinearFilter& filter, const Sketch* sketch,
                const std::vector<Level>& levels, const std::int32_t* regions, const Walking& walking,
                const Answers& answers, Team& team) const;

    // The leader and its leaning after 0 to n_steps steps; a leaning is negative if nobody leads.
    void trace(const Rows& queries, Embedding embedding, int n_axes, int n_steps, const Walking& walking,
               std::int32_t* leaders, float* leanings, Team& team) const;

    // The winner of each query, and the exact leaning of every class: its least output.
    void settle(const Rows& queries, std::int32_t* winners, float* leanings, Team& team) const;

    const Kernel& kernel() const { return kernel_; }
    int n_classes() const { return c_; }
    std::int64_t n_vectors() const { return vectors_.n; }
    int n_features() const { return vectors_.d; }
    int n_axes(Embedding embedding) const {
        return embedding == Embedding::pca ? n_axes_ : embedding == Embedding::kernel_pca ? n_landmarks_ : 0;
    }
    int n_steps(Embedding embedding) const {
        return static_cast<int>(embedding == Embedding::index ? class_of_.size() : vectors_.n);
    }

  private:
    class Worker;

    void embed(const Rows& axes);
    void span(const Axes& axes);
    void summarise_blocks();
    int pair_of(int a, int b) const { return a * (2 * c_ - a - 1) / 2 + b - a - 1; }
    int blocks_in(int a) const { return (start_[a + 1] - start_[a]) / lanes; }

    Rows vectors_;
    Kernel kernel_;
    int c_, n_axes_, n_landmarks_;
    std::vector<int> start_;              // first place of each class: classes are padded to whole blocks
    std::vector<std::int32_t> at_place_;  // the vector at each place, -1 for padding
    std::vector<std::int32_t> class_of_;  // of each block
    AlignedVector<float> blocks_;         // the vectors
    AlignedVector<float> support_, weight_, mask_;
    AlignedVector<float> axes_, embedded_, norms_;
    AlignedVector<float> landmarks_, basis_, spanned_, sums_;  // sums_: of the spanned terms of each pair
    std::vector<int> head_start_;         // of each class, in what there is one of for each block
    std::vector<std::int32_t> in_block_;  // number of vectors
    // The mean of exp(-gamma |x - v|^2) over a block is about scale exp(-gamma |shrink x - centre|^2).
    AlignedVector<float> centres_, shrink_, centre_scale_, centre_support_, centre_weight_, centre_mask_;
    std::vector<float> bias_;
};

}  // namespace vicinal
