// The nearest of many points, most of which are ruled out by a few numbers.
//
// Every point and query has 16 coordinates: where its image on 15 orthonormal axes lies, and how far
// off them it lies. Distances between those are never longer than the distances themselves, so a block
// of points whose 16 lie farther away than the nearest point found so far needs no more: first by half
// of the coordinates, then by all. What is left is measured as in a scan, in the same order of sums, so
// the answer is that of a scan to the last bit. On axes of large variance, 16 of d numbers rule out
// nearly all points: a query costs n * 8 to n * 16 operations in place of n * d.
#pragma once

#include <vector>

#include "neighbours.hpp"

namespace vicinal {

class Sieve {
  public:
    static constexpr int n_axes = lanes - 1;

    // Rows of `axes` are orthonormal, n_axes of them; Euclidean metric.
    Sieve(Rows rows, const double* axes, const double* origin, Team& team);
    void query(const Rows& queries, float* squared, std::int32_t* index, Team& team) const;

  private:
    struct Image {
        float at[lanes];
        double length;  // distance from the origin
    };
    Image image(const float* x) const;
    void first_bounds(const Image* images, int n, float* bounds, std::int64_t* least_block) const;

    Rows rows_;
    std::vector<double> axes_, origin_;
    std::vector<std::int32_t> order_;
    BlockedPoints points_;
    AlignedVector<float> images_;  // 16 rows of 16 points a block, as the points themselves
    double farthest_ = 0.0;
};

}  // namespace vicinal
