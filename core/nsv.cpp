#include "nsv.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>

#include "gram.hpp"
#include "nsv_worker.hpp"

namespace vicinal {

namespace {

constexpr std::int64_t queries_at_once = 256;  // of one item of work

// Blocks of the given rows, a negative index standing for the last row before it.
void gather_places(const Rows& rows, const std::vector<std::int32_t>& at_place, float* blocks) {
    std::vector<std::int32_t> index(at_place);
    for (std::size_t i = 1; i < index.size(); ++i)
        if (index[i] < 0) index[i] = index[i - 1];
    gather(rows, index.data(), static_cast<std::int64_t>(index.size()), blocks);
}

// 0 to n - 1, and what gather_places takes for the rest of the last block.
std::vector<std::int32_t> first_of(int n) {
    std::vector<std::int32_t> index(padded(n), -1);
    std::iota(index.begin(), index.begin() + n, 0);
    return index;
}

}  // namespace

EarlyMachine::EarlyMachine(const Expansion& e, const Axes& axes)
    : vectors_(e.vectors),
      kernel_(e.kernel),
      c_(e.n_classes),
      n_axes_(static_cast<int>(axes.principal.n)),
      n_landmarks_(static_cast<int>(axes.basis.n)) {
    const int d = vectors_.d;
    for (int a = 0, next = 0; a < c_; ++a) {
        start_.push_back(static_cast<int>(at_place_.size()));
        for (int i = 0; i < padded(e.class_sv[a]); ++i) at_place_.push_back(i < e.class_sv[a] ? next++ : -1);
        class_of_.resize(at_place_.size() / lanes, a);
    }
    start_.push_back(static_cast<int>(at_place_.size()));
    const std::size_t places = at_place_.size();

    blocks_.resize(places * d);
    gather_places(vectors_, at_place_, blocks_.data());
    support_.resize(places * (c_ - 1));
    weight_.resize(places);
    mask_.resize(places);
    for (std::size_t i = 0; i < places; ++i) {
        const std::int32_t v = at_place_[i];
        weight_[i] = 0.0f;
        mask_[i] = v < 0 ? -infinity : 0.0f;
        for (int row = 0; row + 1 < c_; ++row) {
            const float s = v < 0 ? 0.0f : e.support[row * vectors_.n + v];
            support_[row * places + i] = s;
            weight_[i] = std::max(weight_[i], s);
        }
    }
    bias_.assign(e.bias, e.bias + c_ * (c_ - 1) / 2);

    summarise_blocks();
    if (n_axes_ > 0) embed(axes.principal);
    if (n_landmarks_ > 0) span(axes);
}

void EarlyMachine::embed(const Rows& axes) {
    const int d = vectors_.d;
    std::vector<std::int32_t> order = first_of(n_axes_);
    axes_.resize(order.size() * d);
    gather_places(axes, order, axes_.data());
    std::vector<float> projected(static_cast<std::size_t>(vectors_.n) * n_axes_), norms(vectors_.n);
    for (std::int64_t v = 0; v < vectors_.n; ++v) {
        for (int axis = 0; axis < n_axes_; ++axis)
            projected[v * n_axes_ + axis] = dot(vectors_[v], axes[axis], d);
        norms[v] = dot(vectors_[v], vectors_[v], d);
    }
    embedded_.resize(at_place_.size() * n_axes_);
    gather_places({projected.data(), vectors_.n, n_axes_}, at_place_, embedded_.data());
    norms_.resize(at_place_.size());
    for (std::size_t i = 0; i < norms_.size(); ++i) norms_[i] = at_place_[i] < 0 ? 0.0f : norms[at_place_[i]];
}

void EarlyMachine::span(const Axes& axes) {
    const int n = n_landmarks_;
    std::vector<std::int32_t> chosen = first_of(n);
    basis_.resize(chosen.size() * n);
    gather_places(axes.basis, chosen, basis_.data());
    std::copy_n(axes.landmarks, n, chosen.begin());
    landmarks_.resize(chosen.size() * vectors_.d);
    gather_places(vectors_, chosen, landmarks_.data());

    // The vectors, embedded as queries are.
    Worker worker(*this, Walking{});
    std::vector<float> embedded(static_cast<std::size_t>(vectors_.n) * n);
    for (std::int64_t first = 0; first < vectors_.n; first += rows_at_once) {
        const float* x[rows_at_once];
        for (int q = 0; q < rows_at_once; ++q) x[q] = vectors_[std::min(first + q, vectors_.n - 1)];
        worker.span(x, n);
        for (int q = 0; q < rows_at_once && first + q < vectors_.n; ++q)
            std::copy_n(worker.projection(q, n), n, &embedded[(first + q) * n]);
    }
    spanned_.resize(at_place_.size() * n);
    gather_places({embedded.data(), vectors_.n, n}, at_place_, spanned_.data());

    const int n_pairs = c_ * (c_ - 1) / 2;
    std::vector<double> sums(static_cast<std::size_t>(n_pairs) * n);
    for (std::size_t i = 0; i < at_place_.size(); ++i) {
        if (at_place_[i] < 0) continue;
        const int own = class_of_[i / lanes];
        for (int row = 0; row + 1 < c_; ++row) {
            const int other = row < own ? row : row + 1, a = std::min(own, other), b = std::max(own, other);
            const double s = support_[row * at_place_.size() + i] * (own == b ? 1.0 : -1.0);
            double* sum = &sums[static_cast<std::size_t>(pair_of(a, b)) * n];
            const float* z = &embedded[static_cast<std::size_t>(at_place_[i]) * n];
            for (int axis = 0; axis < n; ++axis) sum[axis] += s * z[axis];
        }
    }
    const std::vector<float> single(sums.begin(), sums.end());
    chosen = first_of(n_pairs);
    sums_.resize(chosen.size() * n);
    gather_places({single.data(), n_pairs, n}, chosen, sums_.data());
}

// The centre of each block, weighted as the vectors are, and what they support together.
void EarlyMachine::summarise_blocks() {
    head_start_.push_back(0);
    for (int a = 0; a < c_; ++a) head_start_.push_back(head_start_.back() + padded(blocks_in(a)));
    const std::size_t heads = head_start_.back(), places = at_place_.size();
    const int d = vectors_.d;
    centre_support_.assign(heads * (c_ - 1), 0.0f);
    centre_weight_.assign(heads, 0.0f);
    centre_mask_.assign(heads, -infinity);
    in_block_.assign(heads, 0);
    centre_scale_.assign(heads, 1.0f);
    const bool rbf = kernel_.kind == KernelKind::rbf;
    std::vector<float> centres(heads * d, 0.0f), shrink(heads * d, 1.0f);
    for (int a = 0; a < c_; ++a)
        for (int b = 0; b < blocks_in(a); ++b) {
            const std::size_t head = head_start_[a] + b, first = start_[a] + b * lanes;
            std::vector<double> mean(d, 0.0), square(d, 0.0);
            double total = 0.0, log_scale = 0.0;
            for (std::size_t i = first; i < first + lanes; ++i) {
                if (at_place_[i] < 0) continue;
                ++in_block_[head];
                const double w = weight_[i] + 1e-30;  // a block of no weight still has a centre
                total += w;
                for (int f = 0; f < d; ++f) {
                    const double v = vectors_[at_place_[i]][f];
                    mean[f] += w * v;
                    square[f] += w * v * v;
                }
                centre_weight_[head] += weight_[i];
                for (int row = 0; row + 1 < c_; ++row)
                    centre_support_[row * heads + head] += support_[row * places + i];
            }
            for (int f = 0; f < d; ++f) {
                mean[f] /= total;
                const double variance = std::max(0.0, square[f] / total - mean[f] * mean[f]);
                const double wider = rbf ? 1.0 + 2.0 * kernel_.gamma * variance : 1.0;
                log_scale -= 0.5 * std::log(wider);
                shrink[head * d + f] = static_cast<float>(1.0 / std::sqrt(wider));
                centres[head * d + f] = static_cast<float>(mean[f] / std::sqrt(wider));
            }
            centre_scale_[head] = static_cast<float>(std::exp(log_scale));
            centre_mask_[head] = 0.0f;
        }
    std::vector<std::int32_t> all(heads);
    std::iota(all.begin(), all.end(), 0);
    centres_.resize(heads * d);
    gather_places({centres.data(), static_cast<std::int64_t>(heads), d}, all, centres_.data());
    if (!rbf) return;
    shrink_.resize(heads * d);
    gather_places({shrink.data(), static_cast<std::int64_t>(heads), d}, all, shrink_.data());
}

namespace {

// Calls body(first, n, x) for groups of queries: as many as are worked on at once, the last query
// standing in for those that are missing.
template <class Body>
void for_groups(const Rows& queries, const std::vector<std::int64_t>& chosen, const Body& body) {
    for (std::size_t first = 0; first < chosen.size(); first += rows_at_once) {
        const int n = static_cast<int>(std::min<std::size_t>(rows_at_once, chosen.size() - first));
        const float* x[rows_at_once];
        for (int q = 0; q < rows_at_once; ++q) x[q] = queries[chosen[first + std::min(q, n - 1)]];
        body(first, n, x);
    }
}

}  // namespace

void EarlyMachine::answer(const Rows& queries, const LinearFilter& linear, const Sketch* sketch,
                          const std::vector<Level>& levels, const std::int32_t* regions,
                          const Walking& walking, const Answers& answers, Team& team) const {
    const int n_decisions = c_ == 2 ? 1 : c_;
    std::vector<std::unique_ptr<Worker>> workers(team.size());
    for_ranges(team, queries.n, queries_at_once, [&](std::int64_t begin, std::int64_t end, int member) {
        if (!workers[member]) workers[member] = std::make_unique<Worker>(*this, walking);
        Worker& worker = *workers[member];
        const auto say = [&](std::int64_t query, const float* outputs, std::int64_t touched) {
            worker.decide(outputs, answers.decisions + query * n_decisions, answers.labels + query);
            answers.n_touched[query] = static_cast<std::int32_t>(touched);
        };

        std::vector<std::int64_t> open, left;
        for (std::int64_t query = begin; query < end; ++query)
            if (linear.weights.n > 0 && worker.filter(linear, queries[query]))
                say(query, worker.outputs(0), 0);
            else
                open.push_back(query);

        if (sketch != nullptr) {
            const int n_scores = sketch->n_scores();
            AlignedVector<float> scratch(sketch->scratch_size());
            std::vector<float> scores(static_cast<std::size_t>(rows_at_once) * n_scores);
            for_groups(queries, open, [&](std::size_t first, int n, const float* const* x) {
                team.check();
                sketch->score(x, scratch.data(), scores.data());
                for (int q = 0; q < n; ++q)
                    if (worker.believe(&scores[q * n_scores], n_scores, sketch->thresholds(),
                                       worker.outputs(q)))
                        say(open[first + q], worker.outputs(q), 0);
                    else
                        left.push_back(open[first + q]);
            });
            open.swap(left);
            left.clear();
        }

        for (const Level& level : levels) {
            for_groups(queries, open, [&](std::size_t first, int n, const float* const* x) {
                team.check();
                worker.approximately(x, level.embedding, level.n_axes, level.n_steps > 0);
                for (int q = 0; q < n; ++q) {
                    const std::int64_t query = open[first + q], width = level.n_steps + 1;
                    const float* thresholds =
                        level.thresholds + (regions == nullptr ? 0 : regions[query] * c_ * width);
                    const auto certain = [&](int step, int leader, float leaning) {
                        return leaning > thresholds[leader * width + step];
                    };
                    if (worker.walk(q, x[q], level.n_steps, certain))
                        say(query, worker.outputs(q), worker.n_touched());
                    else
                        left.push_back(query);
                }
            });
            open.swap(left);
            left.clear();
        }
        for_groups(queries, open, [&](std::size_t first, int n, const float* const* x) {
            team.check();
            worker.exactly(x);
            for (int q = 0; q < n; ++q) say(open[first + q], worker.outputs(q), vectors_.n);
        });
    });
}

void EarlyMachine::settle(const Rows& queries, std::int32_t* winners, float* leanings, Team& team) const {
    std::vector<std::unique_ptr<Worker>> workers(team.size());
    for_ranges(team, queries.n, queries_at_once, [&](std::int64_t begin, std::int64_t end, int member) {
        if (!workers[member]) workers[member] = std::make_unique<Worker>(*this, Walking{});
        Worker& worker = *workers[member];
        std::vector<std::int64_t> all(end - begin);
        std::iota(all.begin(), all.end(), begin);
        std::vector<double> decision(c_);
        for_groups(queries, all, [&](std::size_t first, int n, const float* const* x) {
            team.check();
            worker.exactly(x);
            for (int q = 0; q < n; ++q) {
                const std::int64_t query = all[first + q];
                worker.decide(worker.outputs(q), decision.data(), winners + query);
                for (int a = 0; a < c_; ++a) leanings[query * c_ + a] = worker.leaning(worker.outputs(q), a);
            }
        });
    });
}

void EarlyMachine::trace(const Rows& queries, Embedding embedding, int n_axes, int n_steps,
                         const Walking& walking, std::int32_t* leaders, float* leanings, Team& team) const {
    std::vector<std::unique_ptr<Worker>> workers(team.size());
    for_ranges(team, queries.n, queries_at_once, [&](std::int64_t begin, std::int64_t end, int member) {
        if (!workers[member]) workers[member] = std::make_unique<Worker>(*this, walking);
        Worker& worker = *workers[member];
        std::vector<std::int64_t> all(end - begin);
        std::iota(all.begin(), all.end(), begin);
        for_groups(queries, all, [&](std::size_t first, int n, const float* const* x) {
            team.check();
            worker.approximately(x, embedding, n_axes, n_steps > 0);
            for (int q = 0; q < n; ++q) {
                const std::int64_t row = all[first + q] * (n_steps + 1);
                worker.walk(q, x[q], n_steps, [&](int step, int leader, float leaning) {
                    leaders[row + step] = leader;
                    leanings[row + step] = leaning;
                    return false;
                });
            }
        });
    });
}

}  // namespace vicinal
