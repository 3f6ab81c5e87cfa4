// Kernel values of many points with a few vectors, and weighted sums of them.
//
// A tile is 64 points against all vectors. Two blocks of sixteen vectors meet eight points at a time,
// so that what is loaded is used often, and every kernel value is made where its product ends: a
// value of the kernel costs d multiply-adds and one exponential, and leaves the cache only if it is
// asked for. The sums of one point run in the same order whatever points come with it.
//
// Squared distances are |x|² + |z|² - 2 <x, z>: points and vectors must lie around the origin.
#pragma once

#include <cstdint>

#include "kernel.hpp"
#include "parallel.hpp"
#include "points.hpp"

namespace vicinal {

class KernelTiles {
  public:
    KernelTiles(const Rows& vectors, const Kernel& kernel);

    // out[i * n_vectors + j] = K(points[i], vectors[j])
    void values(const Rows& points, float* out, Team& team) const;

    // out[i * n_outputs + k] = bias[k] + sum over j of K(points[i], vectors[j]) coef[j * n_outputs + k]
    void weighted_sums(const Rows& points, const double* coef, const double* bias, int n_outputs, double* out,
                       Team& team) const;

  private:
    static constexpr int tile_rows = 64;

    // Kernel values of some points, in rows of stride_.
    void fill(const Rows& points, std::int64_t begin, std::int64_t end, float* tile) const;

    int n_vectors_, d_, stride_;
    Kernel kernel_;
    AlignedVector<float> blocks_, squares_;
};

}  // namespace vicinal
