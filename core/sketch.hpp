// A sketch of a kernel machine: few vectors on few axes give every class a score.
//
//   score_a(x) = b_a + sum over axes u_aj z_j + sum over landmarks w_ai K(l_i, z),  z = (x . axis_j)
//
// It stands in front of nearest support vectors as a linear filter does: where the best score leads by
// far, nothing else is computed. (Burges' reduced sets in front of the machine that they were made of.)
//
// Cost of a query: e d multiply-adds for the projection, then n kernel values of e features each, and
// c (n + e) multiply-adds.
#pragma once

#include <vector>

#include "kernel.hpp"
#include "points.hpp"

namespace vicinal {

// As somebody else owns them. Scores are those of all classes, or of the second of two.
struct SketchArrays {
    Rows axes;       // n_axes x d; no rows: no sketch
    Rows landmarks;  // n x n_axes
    Rows linear;     // n_scores x n_axes
    Rows weights;    // n_scores x n
    const float *bias, *thresholds;
};

class Sketch {
  public:
    Sketch(const SketchArrays& arrays, const Kernel& kernel);

    int n_scores() const { return static_cast<int>(linear_.n); }
    const float* thresholds() const { return thresholds_; }
    std::size_t scratch_size() const { return rows_at_once * (axes_padded() + n_places()); }

    // The scores of a group of queries, n_scores for each.
    void score(const float* const* x, float* scratch, float* scores) const;

  private:
    std::size_t axes_padded() const { return static_cast<std::size_t>(padded(n_axes_)); }
    std::size_t n_places() const { return static_cast<std::size_t>(padded(n_landmarks_)); }

    Kernel kernel_;
    int d_, n_axes_, n_landmarks_;
    Rows linear_;
    const float *bias_, *thresholds_;
    AlignedVector<float> axes_, landmarks_, weights_;  // in blocks; weights padded by zeros
};

}  // namespace vicinal
