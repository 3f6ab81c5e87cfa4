// Many small SVMs: training them, evaluating them, choosing their parameters.
//
// Every neighbourhood is one item of work for one thread, which gathers its points, computes its
// kernel matrix once and solves one dual for each pair of classes present. Memory is that of the
// result and, for each thread, one kernel matrix; above `cache_bytes` its rows are computed on demand.
//
// A machine of c classes has its support vectors sorted by class and their coefficients in LIBSVM's
// layout, a (c - 1) x n_sv block: for a vector of class a, the coefficient against class b stands in
// row b - 1 if a < b and in row b if a > b. Pairs (a, b), a < b, go in lexicographic order; a positive
// value is a vote for b. A machine of one class is unanimous and has no vectors.
#pragma once

#include <cstdint>
#include <vector>

#include "kernel.hpp"
#include "parallel.hpp"
#include "points.hpp"

namespace vicinal {

struct Data {
    Rows points;
    const std::int32_t* targets;  // class codes
    const float* weights;         // multipliers of C
};

struct NeighbourhoodList {
    const std::int32_t* index;
    std::int64_t n;
    int k;
    const std::int32_t* operator[](std::int64_t m) const { return index + m * k; }
};

struct Settings {
    Kernel kernel;
    bool local_gamma;  // 1 / percentile of the squared distances, found in each neighbourhood
    double percentile;
    double tolerance;
    std::int64_t cache_bytes;
};

struct Machine {
    double gamma = 1.0;
    std::vector<std::int32_t> classes, class_sv, sv;  // class_sv: number of vectors of each class
    std::vector<float> coef, bias;
    std::int64_t n_iter = 0;
};

// The arrays of many machines, one after the other; machine m has [ptr[m], ptr[m + 1]) of each.
struct MachineArrays {
    const float* gamma;
    const std::int64_t *sv_ptr, *class_ptr, *coef_ptr, *bias_ptr;
    const std::int32_t *sv, *classes, *class_sv;
    const float *coef, *bias;
    std::int64_t n;
};

// C[m] for machine m; gammas may be null.
std::vector<Machine> train(const Data& data, const NeighbourhoodList& neighbourhoods,
                           const Settings& settings, const float* C, const float* gammas, Team& team);

// One decision a query if n_classes is 2 (positive: class 1), else n_classes of them: votes, and the
// sum of the outputs squeezed into (-1/3, 1/3) to break ties; -1 for classes that the machine lacks.
void evaluate(const Rows& points, const MachineArrays& machines, const Kernel& kernel, const Rows& queries,
              const std::int32_t* routes, int n_classes, double* decisions, Team& team);

// kNNSVM: query q is decided by a machine trained on neighbourhood q, which is then forgotten.
void train_and_evaluate(const Data& data, const NeighbourhoodList& neighbourhoods, const Settings& settings,
                        const float* C, const float* gammas, const Rows& queries, int n_classes,
                        double* decisions, Team& team);

// k'-internal cross-validation (Segata & Blanzieri, JMLR 2010, Definition 4): the n_internal innermost
// points are held out in turn, internal point j in fold j % n_folds. errors[m][p][c] is the share of
// them that neighbourhood m got wrong with candidate p, a kernel of the same kind as all others, and the
// c-th value of C (ascending).
void cross_validate(const Data& data, const NeighbourhoodList& neighbourhoods,
                    const std::vector<Settings>& candidates, int n_internal, int n_folds,
                    const std::vector<float>& C, double* errors, Team& team);

}  // namespace vicinal
