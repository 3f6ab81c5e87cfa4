// The C-SVC dual, by sequential minimal optimisation.
//
// Solves   min_beta  1/2 beta' K beta - y' beta
//          with      sum(beta) = 0,   0 <= y_i beta_i <= C_i,
// where beta_i = y_i alpha_i. Given: the kernel matrix K (single precision), labels y_i = +-1, upper
// bounds C_i >= 0 (a point with C_i = 0 takes no part, but its output is known), a tolerance.
//
// With F = K beta - y, the gradient, the optimum is reached when
//   max over {beta_i may grow} of -F_i  -  min over {beta_j may fall} of -F_j  <=  tolerance,
// LIBSVM's rule (Chang & Lin, LIBSVM: a library for support vector machines, 2011). The pair (i, j) of
// a step: i attains that maximum, j promises the largest decrease of the objective to second order
// (Fan, Chen & Lin, Working set selection using second order information, JMLR 2005).
//
// Cost of an iteration: two passes over n floats each of a few arrays and two rows of K. Adding the
// last step to F and selecting the next i are one pass; whether beta_i may grow or fall is a vector
// that is 0 or -infinity, simply added.
//
// Pairs alone converge slowly once C is large: the few points strictly between their bounds keep
// trading tiny amounts. So whenever the pairs have cost as much as a factorisation of the kernel
// matrix of those free points would, their equality-constrained problem is solved exactly (a Newton
// step, cut where a point meets its bound, which then leaves the set). Pairs bring points in, Newton
// steps settle them; the objective falls in both, and the stopping rule is that of the pairs.
//
// Points at a bound that the rule leaves there take no part in most of this. Once they are many, the
// others are solved as a problem of their own, with a kernel matrix that fits a nearer cache, and the
// whole is checked again afterwards (shrinking; Joachims, Making large-scale SVM learning practical,
// 1999).
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "parallel.hpp"
#include "points.hpp"

namespace vicinal {

// Where the rows of the kernel matrix come from: all in memory, or computed when asked for. A row has
// padded(n) floats and stays valid until the row after next is asked for.
class GramRows {
  public:
    virtual ~GramRows() = default;
    virtual const float* row(int i) = 0;
    virtual float diagonal(int i) = 0;
    // The rows and columns of some points, in rows of padded(members.size()) floats.
    virtual void part(const std::vector<int>& members, float* out) = 0;
};

class DenseGram final : public GramRows {
  public:
    DenseGram(const float* data, int stride) : data_(data), stride_(stride) {}
    const float* row(int i) override { return data_ + static_cast<std::int64_t>(i) * stride_; }
    float diagonal(int i) override { return row(i)[i]; }
    void part(const std::vector<int>& members, float* out) override {
        const int n = static_cast<int>(members.size()), m = padded(n);
        for (int i = 0; i < n; ++i, out += m) {
            const float* from = row(members[i]);
            for (int j = 0; j < n; ++j) out[j] = from[members[j]];
            std::fill(out + n, out + m, 0.0f);
        }
    }

  private:
    const float* data_;
    int stride_;
};

class Smo {
  public:
    static constexpr std::int64_t most_iterations = 20'000'000;

    // Starts at beta = 0. The labels are copied.
    void start(GramRows& gram, const float* y, int n);
    // Sets the upper bounds C_i; to be called once after start().
    void set_bounds(const float* upper);
    // Multiplies all bounds by a factor >= 1. The next solution starts from this one or from its
    // multiple, whichever has the lower objective: points at their bound stay there in the second.
    void grow_bounds(double factor);
    // Returns the number of iterations, or `most_iterations` if it gave up: after so many, or where
    // single precision ends before the tolerance. `team` lets a long solution be interrupted.
    std::int64_t solve(double tolerance, Team* team);

    int n() const { return n_; }
    double beta(int i) const { return beta_[i]; }
    float gradient(int i) const { return F_[i]; }
    double bias() const;

  private:
    bool iterate(double tolerance, std::int64_t limit, std::int64_t& iterations, Team* team);
    void set_membership(int i);
    void snap_to_bounds();
    void recompute_gradient(Team* team);
    void find_free_points();
    double newton_cost() const;
    double settle_free_points(Team* team);
    void find_active_points();
    void add_to_gradient(float step, int i);
    double objective(double factor = 1.0) const;
    bool descend(double tolerance, std::int64_t& iterations, Team* team);
    bool improve(double tolerance, std::int64_t most, std::int64_t& iterations, Team* team);
    void solve_active_points(double tolerance, std::int64_t most, std::int64_t& iterations, Team* team);

    GramRows* gram_ = nullptr;
    int n_ = 0;
    std::vector<double> beta_, lo_, hi_;
    AlignedVector<float> y_, F_, up_, low_, diagonal_;

    std::vector<int> free_;      // the points strictly between their bounds, which a Newton step moves
    std::vector<int> active_;    // those and the points at a bound that may still leave it
    AlignedVector<float> part_;  // their kernel matrix
    std::unique_ptr<Smo> active_smo_;
};

}  // namespace vicinal
