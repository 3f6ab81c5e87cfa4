#include "local_svm.hpp"

#include <algorithm>
#include <memory>
#include <numeric>

#include "gram.hpp"
#include "smo.hpp"

namespace vicinal {

namespace {

// What a thread needs to train one machine after the other without allocating.
struct Workspace {
    LocalPoints points;
    AlignedVector<float> gram, ingredients, pair_gram;
    std::vector<float> sample, labels, bounds;
    std::vector<int> members;
    std::vector<std::int32_t> part_index;
    LocalPoints part;
    std::unique_ptr<GramRows> rows;
    Smo smo;
};

std::vector<std::int32_t> classes_present(const Data& data, const std::int32_t* index, int k) {
    std::vector<std::int32_t> classes;
    for (int i = 0; i < k; ++i) {
        const std::int32_t c = data.targets[index[i]];
        const auto at = std::ranges::lower_bound(classes, c);
        if (at == classes.end() || *at != c) classes.insert(at, c);
    }
    return classes;
}

// A whole kernel matrix is worth computing while it fits the second-level cache; of a larger one the
// solver may well need only a part, and computing rows as it asks for them costs less.
bool fits(int k, std::int64_t bytes) { return static_cast<std::int64_t>(k) * padded(k) * 4 <= bytes; }
bool worth_a_tile(int k, std::int64_t cache_bytes) {
    return fits(k, std::min<std::int64_t>(cache_bytes, 2 << 20));
}

// A point's share of C, kept finite and above zero: bounds are compared with sums of coefficients.
float upper_bound(double C, float weight) { return static_cast<float>(std::clamp(C * weight, 1e-37, 1e30)); }

Kernel kernel_for(const LocalPoints& points, const Settings& settings, std::vector<float>& sample) {
    Kernel kernel = settings.kernel;
    if (settings.local_gamma) kernel.gamma = local_gamma(points, settings.percentile, sample);
    return kernel;
}

// The kernel matrix of the whole neighbourhood: the tile, if there is one, or rows on demand.
std::unique_ptr<GramRows> kernel_matrix(const Workspace& w, bool dense, const Kernel& kernel,
                                        std::int64_t cache_bytes, Team& team) {
    if (dense) return std::make_unique<DenseGram>(w.gram.data(), padded(w.points.k));
    return std::make_unique<CachedGram>(w.points, kernel, cache_bytes, team);
}

// That of w.members alone.
GramRows& members_of(GramRows& whole, Workspace& w, bool dense, const Kernel& kernel,
                     std::int64_t cache_bytes, Team& team) {
    const int n = static_cast<int>(w.members.size());
    if (n == w.points.k) return whole;
    if (dense) {
        w.pair_gram.resize(static_cast<std::size_t>(n) * padded(n));
        whole.part(w.members, w.pair_gram.data());
        w.rows = std::make_unique<DenseGram>(w.pair_gram.data(), padded(n));
    } else {
        w.part_index.clear();
        for (const int i : w.members) w.part_index.push_back(w.points.index[i]);
        w.part.gather_from(w.points.rows, w.part_index.data(), n);
        w.rows = std::make_unique<CachedGram>(w.part, kernel, cache_bytes, team);
    }
    return *w.rows;
}

// One machine on one neighbourhood.
Machine train_one(const Data& data, const std::int32_t* index, int k, const Settings& settings, double C,
                  double gamma, Workspace& w, Team& team) {
    Machine machine;
    machine.classes = classes_present(data, index, k);
    const int n_classes = static_cast<int>(machine.classes.size());
    if (n_classes == 1) {
        machine.class_sv.assign(1, 0);
        return machine;
    }

    w.points.gather_from(data.points, index, k);
    Kernel kernel = kernel_for(w.points, settings, w.sample);
    if (gamma > 0) kernel.gamma = gamma;
    machine.gamma = kernel.gamma;

    const bool dense = worth_a_tile(k, settings.cache_bytes);
    if (dense) {
        w.gram.resize(static_cast<std::size_t>(k) * padded(k));
        gram_tile(w.points, kernel, w.gram.data(), team);
    }
    const auto gram = kernel_matrix(w, dense, kernel, settings.cache_bytes, team);

    struct Solution {
        std::vector<int> members;
        std::vector<double> beta;
    };
    std::vector<Solution> pairs;
    for (int a = 0; a < n_classes; ++a)
        for (int b = a + 1; b < n_classes; ++b) {
            w.members.clear();
            w.labels.clear();
            w.bounds.clear();
            for (int i = 0; i < k; ++i) {
                const std::int32_t c = data.targets[index[i]];
                if (c != machine.classes[a] && c != machine.classes[b]) continue;
                w.members.push_back(i);
                w.labels.push_back(c == machine.classes[b] ? 1.0f : -1.0f);
                w.bounds.push_back(upper_bound(C, data.weights[index[i]]));
            }
            const int n = static_cast<int>(w.members.size());
            w.smo.start(members_of(*gram, w, dense, kernel, settings.cache_bytes, team), w.labels.data(), n);
            w.smo.set_bounds(w.bounds.data());
            machine.n_iter += w.smo.solve(settings.tolerance, &team);
            machine.bias.push_back(static_cast<float>(w.smo.bias()));
            pairs.push_back({w.members, {}});
            for (int i = 0; i < n; ++i) pairs.back().beta.push_back(w.smo.beta(i));
        }

    // A point is a support vector if any pair needs it.
    std::vector<char> needed(k, 0);
    for (const auto& pair : pairs)
        for (std::size_t i = 0; i < pair.members.size(); ++i)
            if (pair.beta[i] != 0.0) needed[pair.members[i]] = 1;
    std::vector<int> place(k, -1);
    for (const std::int32_t c : machine.classes) {
        std::int32_t count = 0;
        for (int i = 0; i < k; ++i) {
            if (!needed[i] || data.targets[index[i]] != c) continue;
            place[i] = static_cast<int>(machine.sv.size());
            machine.sv.push_back(index[i]);
            ++count;
        }
        machine.class_sv.push_back(count);
    }
    const std::size_t n_sv = machine.sv.size();
    machine.coef.assign((n_classes - 1) * n_sv, 0.0f);
    std::size_t pair = 0;
    for (int a = 0; a < n_classes; ++a)
        for (int b = a + 1; b < n_classes; ++b, ++pair)
            for (std::size_t i = 0; i < pairs[pair].members.size(); ++i) {
                if (pairs[pair].beta[i] == 0.0) continue;
                const int member = pairs[pair].members[i];
                const int row = data.targets[index[member]] == machine.classes[a] ? b - 1 : a;
                machine.coef[row * n_sv + place[member]] = static_cast<float>(pairs[pair].beta[i]);
            }
    return machine;
}

// The votes of one machine for one query, from the outputs of its pairs.
void cast_votes(const std::int32_t* classes, int c, const double* outputs, int n_classes, double* decision) {
    if (n_classes == 2) {
        *decision = c == 2 ? outputs[0] : classes[0] == 1 ? 1.0 : -1.0;
        return;
    }
    std::fill_n(decision, n_classes, -1.0);
    std::vector<double> votes(c, 0.0), confidence(c, 0.0);
    for (int a = 0, pair = 0; a < c; ++a)
        for (int b = a + 1; b < c; ++b, ++pair) {
            votes[outputs[pair] > 0 ? b : a] += 1.0;
            confidence[b] += outputs[pair];
            confidence[a] -= outputs[pair];
        }
    for (int a = 0; a < c; ++a)
        decision[classes[a]] = votes[a] + confidence[a] / (3.0 * (std::abs(confidence[a]) + 1.0));
}

struct MachineView {
    double gamma;
    const std::int32_t *sv, *classes, *class_sv;
    const float *coef, *bias;
    int n_sv, n_classes;
};

// Evaluates one machine after the other; the vectors are gathered once for all its queries.
class Evaluator {
  public:
    void load_machine(const Rows& points, const Kernel& kernel, const MachineView& m) {
        machine_ = m;
        kernel_ = kernel;
        kernel_.gamma = m.gamma;
        d_ = points.d;
        const int width = padded(m.n_sv);
        blocks_.resize(static_cast<std::size_t>(width) * d_);
        if (m.n_sv) gather(points, m.sv, m.n_sv, blocks_.data());
        coef_.assign(static_cast<std::size_t>(std::max(0, m.n_classes - 1)) * width, 0.0f);
        for (int row = 0; row + 1 < m.n_classes; ++row)
            std::copy_n(m.coef + static_cast<std::int64_t>(row) * m.n_sv, m.n_sv,
                        &coef_[static_cast<std::size_t>(row) * width]);
        double total = 0.0;
        for (int i = 0; i < m.n_sv; ++i) total += std::abs(coef_[i]);
        cancels_ = total > most_coefficients;
        values_.resize(width);
        outputs_.resize(std::max(1, m.n_classes * (m.n_classes - 1) / 2));
    }

    void decide(const float* x, int n_classes, double* decision) {
        const int width = padded(machine_.n_sv), c = machine_.n_classes;
        if (c == 2 && !cancels_) {
            vfloat sum{};
            for (int at = 0; at < width; at += lanes)
                sum += load(&coef_[at]) *
                       kernel_(ingredients(kernel_, x, &blocks_[static_cast<std::size_t>(at) * d_], d_));
            outputs_[0] = static_cast<double>(sum_of(sum)) + machine_.bias[0];
        } else if (c >= 2) {
            for (int at = 0; at < width; at += lanes)
                store(&values_[at],
                      kernel_(ingredients(kernel_, x, &blocks_[static_cast<std::size_t>(at) * d_], d_)));
            int first_a = 0, pair = 0;
            for (int a = 0; a < c; ++a) {
                int first_b = first_a + machine_.class_sv[a];
                for (int b = a + 1; b < c; ++b, ++pair) {
                    outputs_[pair] = machine_.bias[pair] + part(b - 1, first_a, machine_.class_sv[a]) +
                                     part(a, first_b, machine_.class_sv[b]);
                    first_b += machine_.class_sv[b];
                }
                first_a += machine_.class_sv[a];
            }
        }
        cast_votes(machine_.classes, c, outputs_.data(), n_classes, decision);
    }

  private:
    // Coefficients of a larger sum cancel so far that single precision has too few digits for them.
    static constexpr double most_coefficients = 1000.0;

    static float sum_of(vfloat v) { return vicinal::sum(v); }
    double part(int row, int first, int count) const {
        const float* coef = &coef_[static_cast<std::size_t>(row) * padded(machine_.n_sv)];
        constexpr int abreast = 8;  // sums that do not wait for each other
        double sums[abreast] = {};
        int i = first;
        for (; i + abreast <= first + count; i += abreast)
            for (int l = 0; l < abreast; ++l) sums[l] += static_cast<double>(coef[i + l]) * values_[i + l];
        for (; i < first + count; ++i) sums[0] += static_cast<double>(coef[i]) * values_[i];
        return std::accumulate(sums, sums + abreast, 0.0);
    }

    MachineView machine_{};
    Kernel kernel_;
    int d_ = 0;
    bool cancels_ = false;
    AlignedVector<float> blocks_, coef_, values_;
    std::vector<double> outputs_;
};

}  // namespace

std::vector<Machine> train(const Data& data, const NeighbourhoodList& neighbourhoods,
                           const Settings& settings, const float* C, const float* gammas, Team& team) {
    std::vector<Machine> machines(neighbourhoods.n);
    PerMember<Workspace> workspace(team);
    team.for_each(neighbourhoods.n, [&](std::int64_t m, int member) {
        machines[m] = train_one(data, neighbourhoods[m], neighbourhoods.k, settings, C[m],
                                gammas ? gammas[m] : 0.0, workspace[member], team);
    });
    return machines;
}

void evaluate(const Rows& points, const MachineArrays& machines, const Kernel& kernel, const Rows& queries,
              const std::int32_t* routes, int n_classes, double* decisions, Team& team) {
    // Queries of one machine stand together; a machine with many of them is several items of work.
    constexpr std::int64_t at_once = 256;
    std::vector<std::int64_t> end(machines.n + 1, 0);
    for (std::int64_t q = 0; q < queries.n; ++q) ++end[routes[q] + 1];
    std::partial_sum(end.begin(), end.end(), end.begin());
    std::vector<std::int64_t> order(queries.n), next(end.begin(), end.end() - 1);
    for (std::int64_t q = 0; q < queries.n; ++q) order[next[routes[q]]++] = q;
    std::vector<std::int64_t> first_of_item;
    for (std::int64_t m = 0; m < machines.n; ++m)
        for (std::int64_t q = end[m]; q < end[m + 1]; q += at_once) first_of_item.push_back(q);

    const int width = n_classes == 2 ? 1 : n_classes;
    PerMember<Evaluator> evaluator(team);
    team.for_each(static_cast<std::int64_t>(first_of_item.size()), [&](std::int64_t item, int member) {
        const std::int64_t first = first_of_item[item];
        const std::int64_t m = routes[order[first]];
        evaluator[member].load_machine(
            points, kernel,
            {machines.gamma[m], machines.sv + machines.sv_ptr[m], machines.classes + machines.class_ptr[m],
             machines.class_sv + machines.class_ptr[m], machines.coef + machines.coef_ptr[m],
             machines.bias + machines.bias_ptr[m],
             static_cast<int>(machines.sv_ptr[m + 1] - machines.sv_ptr[m]),
             static_cast<int>(machines.class_ptr[m + 1] - machines.class_ptr[m])});
        for (std::int64_t q = first; q < std::min(first + at_once, end[m + 1]); ++q) {
            team.check();
            evaluator[member].decide(queries[order[q]], n_classes, decisions + order[q] * width);
        }
    });
}

void train_and_evaluate(const Data& data, const NeighbourhoodList& neighbourhoods, const Settings& settings,
                        const float* C, const float* gammas, const Rows& queries, int n_classes,
                        double* decisions, Team& team) {
    const int width = n_classes == 2 ? 1 : n_classes;
    PerMember<Workspace> workspace(team);
    PerMember<Evaluator> evaluator(team);
    team.for_each(neighbourhoods.n, [&](std::int64_t q, int member) {
        const Machine m = train_one(data, neighbourhoods[q], neighbourhoods.k, settings, C[q],
                                    gammas ? gammas[q] : 0.0, workspace[member], team);
        evaluator[member].load_machine(
            data.points, settings.kernel,
            {m.gamma, m.sv.data(), m.classes.data(), m.class_sv.data(), m.coef.data(), m.bias.data(),
             static_cast<int>(m.sv.size()), static_cast<int>(m.classes.size())});
        evaluator[member].decide(queries[q], n_classes, decisions + q * width);
    });
}

namespace {

// The errors of one neighbourhood at one kernel width, for every C, over all folds. Held-out points
// stay in the dual with an upper bound of zero: they change nothing, and its gradient is their output.
void validate_one(const Data& data, const std::int32_t* index, int k, bool dense, const Kernel& kernel,
                  const Settings& settings, int n_internal, int n_folds, const std::vector<float>& C,
                  double* errors, Workspace& w, Team& team) {
    const std::vector<std::int32_t> classes = classes_present(data, index, k);
    const int c = static_cast<int>(classes.size()), n_C = static_cast<int>(C.size());
    std::fill_n(errors, n_C, 0.0);
    const auto gram = kernel_matrix(w, dense, kernel, settings.cache_bytes, team);
    n_folds = std::max(1, std::min(n_folds, n_internal));
    for (int fold = 0; fold < n_folds; ++fold) {
        const auto held_out = [&](int i) { return i < n_internal && i % n_folds == fold; };
        const int n_held = (n_internal - fold + n_folds - 1) / n_folds;
        std::vector<char> trained(c, 0);
        for (int i = 0; i < k; ++i)
            if (!held_out(i))
                trained[std::ranges::lower_bound(classes, data.targets[index[i]]) - classes.begin()] = 1;
        const int n_trained = static_cast<int>(std::ranges::count(trained, 1));
        std::vector<double> votes(static_cast<std::size_t>(n_C) * n_held * c, 0.0),
            confidence(votes.size(), 0.0);
        if (n_trained == 1)  // nothing to learn: that class, for all
            for (std::size_t v = std::ranges::find(trained, 1) - trained.begin(); v < votes.size(); v += c)
                votes[v] = 1.0;
        for (int a = 0; a < c; ++a)
            for (int b = a + 1; b < c; ++b) {
                if (!trained[a] || !trained[b]) continue;
                w.members.clear();
                w.labels.clear();
                for (int i = 0; i < k; ++i) {
                    const std::int32_t y = data.targets[index[i]];
                    if (!held_out(i) && y != classes[a] && y != classes[b]) continue;
                    w.members.push_back(i);
                    w.labels.push_back(y == classes[a] ? -1.0f : 1.0f);
                }
                const int n = static_cast<int>(w.members.size());
                w.smo.start(members_of(*gram, w, dense, kernel, settings.cache_bytes, team), w.labels.data(),
                            n);
                w.bounds.resize(n);
                for (int i = 0; i < n; ++i)
                    w.bounds[i] =
                        held_out(w.members[i]) ? 0.0f : upper_bound(C[0], data.weights[index[w.members[i]]]);
                w.smo.set_bounds(w.bounds.data());
                for (int at = 0; at < n_C; ++at) {
                    if (at > 0) w.smo.grow_bounds(static_cast<double>(C[at]) / C[at - 1]);
                    w.smo.solve(settings.tolerance, &team);
                    const double bias = w.smo.bias();
                    for (int i = 0, h = 0; i < n; ++i) {
                        if (!held_out(w.members[i])) continue;
                        const double output = static_cast<double>(w.smo.gradient(i)) + w.labels[i] + bias;
                        const std::size_t cell = (static_cast<std::size_t>(at) * n_held + h++) * c;
                        votes[cell + (output > 0 ? b : a)] += 1.0;
                        confidence[cell + b] += output;
                        confidence[cell + a] -= output;
                    }
                }
            }
        for (int at = 0; at < n_C; ++at)
            for (int h = 0; h < n_held; ++h) {
                const std::size_t cell = (static_cast<std::size_t>(at) * n_held + h) * c;
                int best = 0;
                double best_score = -2.0;
                for (int a = 0; a < c; ++a) {
                    const double score =
                        trained[a] ? votes[cell + a] +
                                         confidence[cell + a] / (3.0 * (std::abs(confidence[cell + a]) + 1.0))
                                   : -1.0;
                    if (score > best_score) {
                        best_score = score;
                        best = a;
                    }
                }
                errors[at] += classes[best] != data.targets[index[fold + h * n_folds]];
            }
    }
    for (int at = 0; at < n_C; ++at) errors[at] /= n_internal;
}

}  // namespace

void cross_validate(const Data& data, const NeighbourhoodList& neighbourhoods,
                    const std::vector<Settings>& candidates, int n_internal, int n_folds,
                    const std::vector<float>& C, double* errors, Team& team) {
    const auto n_candidates = static_cast<std::int64_t>(candidates.size());
    const int k = neighbourhoods.k;
    PerMember<Workspace> workspace(team);
    // An item is one neighbourhood with one candidate. Where threads abound the distances are computed
    // once for each: that is cheap beside the solutions, and keeps items small enough for all threads.
    const std::int64_t together = neighbourhoods.n >= 2 * team.size() ? n_candidates : 1;
    team.for_each(neighbourhoods.n * (n_candidates / together), [&](std::int64_t item, int member) {
        Workspace& w = workspace[member];
        const std::int64_t first = item * together, m = first / n_candidates;
        w.points.gather_from(data.points, neighbourhoods[m], k);
        const bool dense = fits(k, candidates[0].cache_bytes);
        if (dense) {
            w.ingredients.resize(static_cast<std::size_t>(k) * padded(k));
            w.gram.resize(static_cast<std::size_t>(k) * padded(k));
            ingredients_tile(w.points, candidates[0].kernel, w.ingredients.data(), team);
        }
        for (std::int64_t at = first; at < first + together; ++at) {
            const Settings& settings = candidates[at % n_candidates];
            const Kernel kernel = kernel_for(w.points, settings, w.sample);
            if (dense) gram_tile_from(w.ingredients.data(), k, kernel, w.gram.data());
            validate_one(data, neighbourhoods[m], k, dense, kernel, settings, n_internal, n_folds, C,
                         errors + at * static_cast<std::int64_t>(C.size()), w, team);
        }
    });
}

}  // namespace vicinal
