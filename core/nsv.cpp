#include "nsv.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <memory>
#include <numeric>

#include "gram.hpp"

namespace vicinal {

namespace {

constexpr std::int64_t queries_at_once = 256;  // of one item of work

// Sums over a pair of rows, in four running sums.
template <class Term>
float sum_of_terms(const float* x, const float* y, int d, const Term& term) {
    vfloat sums[4] = {};
    int f = 0;
    for (; f + 4 * lanes <= d; f += 4 * lanes)
        for (int i = 0; i < 4; ++i) sums[i] += term(load(x + f + i * lanes), load(y + f + i * lanes));
    for (; f + lanes <= d; f += lanes) sums[0] += term(load(x + f), load(y + f));
    float rest = 0.0f;
    for (; f < d; ++f) rest += term(x[f], y[f]);
    return sum((sums[0] + sums[1]) + (sums[2] + sums[3])) + rest;
}
float dot(const float* x, const float* y, int d) {
    return sum_of_terms(x, y, d, [](auto a, auto b) { return a * b; });
}
float squared_distance(const float* x, const float* y, int d) {
    return sum_of_terms(x, y, d, [](auto a, auto b) { return (a - b) * (a - b); });
}

// Blocks of the given rows, a negative index standing for the last row before it.
void gather_places(const Rows& rows, const std::vector<std::int32_t>& at_place, float* blocks) {
    std::vector<std::int32_t> index(at_place);
    for (std::size_t i = 1; i < index.size(); ++i)
        if (index[i] < 0) index[i] = index[i - 1];
    gather(rows, index.data(), static_cast<std::int64_t>(index.size()), blocks);
}

}  // namespace

EarlyMachine::EarlyMachine(const Expansion& e, const Rows& axes)
    : vectors_(e.vectors), kernel_(e.kernel), c_(e.n_classes), n_axes_(static_cast<int>(axes.n)) {
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

    if (n_axes_ == 0) return;
    std::vector<std::int32_t> order(padded(n_axes_), -1);
    std::iota(order.begin(), order.begin() + n_axes_, 0);
    axes_.resize(order.size() * d);
    gather_places(axes, order, axes_.data());
    std::vector<float> projected(static_cast<std::size_t>(vectors_.n) * n_axes_), norms(vectors_.n);
    for (std::int64_t v = 0; v < vectors_.n; ++v) {
        for (int axis = 0; axis < n_axes_; ++axis)
            projected[v * n_axes_ + axis] = dot(vectors_[v], axes[axis], d);
        norms[v] = dot(vectors_[v], vectors_[v], d);
    }
    embedded_.resize(places * n_axes_);
    gather_places({projected.data(), vectors_.n, n_axes_}, at_place_, embedded_.data());
    norms_.resize(places);
    for (std::size_t i = 0; i < places; ++i) norms_[i] = at_place_[i] < 0 ? 0.0f : norms[at_place_[i]];
}

// What a thread needs to answer one group of queries after the other.
class EarlyMachine::Worker {
  public:
    Worker(const EarlyMachine& machine, const Walking& walking)
        : m_(machine),
          walking_(walking),
          places_(static_cast<int>(machine.at_place_.size())),
          row_(padded(machine.c_)),
          values_(static_cast<std::size_t>(places_) * rows_at_once),
          outputs_(static_cast<std::size_t>(row_) * machine.c_ * rows_at_once),
          cumulative_(machine.c_),
          linear_(machine.c_) {
        if (m_.n_axes_ == 0) return;
        projected_.resize(static_cast<std::size_t>(padded(m_.n_axes_)) * rows_at_once);
        scores_.resize(places_);
        head_start_.push_back(0);
        for (int a = 0; a < m_.c_; ++a) head_start_.push_back(head_start_.back() + padded(blocks_in(a)));
        heads_.assign(head_start_.back(), -infinity);
    }

    // The kernel values of a group of queries with all vectors, and the outputs that they make.
    void exactly(const float* const* x) {
        for (int at = 0; at < places_; at += lanes) {
            vfloat t[rows_at_once];
            ingredients(m_.kernel_, x, &m_.blocks_[static_cast<std::size_t>(at) * m_.vectors_.d],
                        m_.vectors_.d, t);
            for (int q = 0; q < rows_at_once; ++q) store(values(q) + at, m_.kernel_(t[q]));
        }
        tally();
    }

    // The same, approximated on the first axes.
    void approximately(const float* const* x, int n_axes) {
        const int d = m_.vectors_.d, stride = padded(n_axes);
        const bool rbf = m_.kernel_.kind == KernelKind::rbf;
        vfloat t[rows_at_once];
        float norms[rows_at_once];
        const float* z[rows_at_once];
        for (int at = 0; at < stride; at += lanes) {
            dot_products(x, &m_.axes_[static_cast<std::size_t>(at) * d], d, t);
            for (int q = 0; q < rows_at_once; ++q) store(&projected_[q * stride + at], t[q]);
        }
        for (int q = 0; q < rows_at_once; ++q) {
            z[q] = &projected_[q * stride];
            norms[q] = rbf ? dot(x[q], x[q], d) : 0.0f;
        }
        for (int at = 0; at < places_; at += lanes) {
            dot_products(z, &m_.embedded_[static_cast<std::size_t>(at) * m_.n_axes_], n_axes, t);
            // Off the axes the vectors are taken for orthogonal to the query.
            if (rbf)
                for (int q = 0; q < rows_at_once; ++q)
                    t[q] = max(load(&m_.norms_[at]) + norms[q] - 2.0f * t[q], vfloat{});
            for (int q = 0; q < rows_at_once; ++q) store(values(q) + at, m_.kernel_(t[q]));
        }
        tally();
    }

    // Walks from the approximations of one query; after every step, says who leads and how far, until
    // `stop` is content. Returns the number of steps, or -1 if it never was.
    template <class Stop>
    int walk(int q, const float* x, int n_steps, const Stop& stop) {
        float* g = outputs(q);
        if (!walking_.corrected) reset(g);
        int leader = 0;
        float leaning = lean(g, leader);
        if (stop(0, leader, leaning)) return 0;
        if (n_steps > 0) rank(q);
        for (int step = 1; step <= n_steps; ++step) {
            touch(q, next(), x, g);
            leaning = lean(g, leader);
            if (stop(step, leader, leaning)) return step;
        }
        return -1;
    }

    // Who leads the linear scores, and how far; the outputs become their differences.
    bool filter(const LinearFilter& f, const float* x, float* g) {
        const int c = m_.c_, rows = static_cast<int>(f.weights.n);
        float best = -infinity, second = -infinity;
        int leader = 0;
        for (int a = 0; a < c; ++a) {
            const int row = rows == 1 ? 0 : a;
            const float score =
                rows == 1 && a == 0 ? 0.0f : dot(x, f.weights[row], f.weights.d) + f.bias[row];
            linear_[a] = score;
            if (score > best) {
                second = best;
                best = score;
                leader = a;
            } else {
                second = std::max(second, score);
            }
        }
        if (!(best - second > f.thresholds[leader])) return false;
        for (int a = 0; a < c; ++a)
            for (int b = 0; b < c; ++b)
                if (a != b) g[a * row_ + b] = linear_[a] - linear_[b];
        return true;
    }

    // Two classes: the output. More: votes with ties to the earlier class, as LIBSVM's.
    void decide(const float* g, double* decision, std::int32_t* label) const {
        const int c = m_.c_;
        if (c == 2) {
            *decision = g[row_];
            *label = *decision > 0;
            return;
        }
        int most = -1;
        for (int a = 0; a < c; ++a) {
            int votes = 0;
            double confidence = 0.0;
            for (int b = 0; b < c; ++b) {
                if (a == b) continue;
                const double output = g[a * row_ + b];
                votes += output > 0 || (output == 0 && a < b);
                confidence += output;
            }
            decision[a] = votes + confidence / (3.0 * (std::abs(confidence) + 1.0));
            if (votes > most) {
                most = votes;
                *label = a;
            }
        }
    }

    float leaning(const float* g, int a) const {
        return *std::min_element(g + a * row_, g + a * row_ + m_.c_);
    }
    float* outputs(int q) { return &outputs_[static_cast<std::size_t>(q) * m_.c_ * row_]; }

  private:
    int blocks_in(int a) const { return (m_.start_[a + 1] - m_.start_[a]) / lanes; }
    float* values(int q) { return &values_[static_cast<std::size_t>(q) * places_]; }

    // Row a, column b of the outputs: what speaks for a against b. Elsewhere infinity, so that the
    // least of a row is the least over the other classes.
    void reset(float* g) const {
        std::fill_n(g, m_.c_ * row_, infinity);
        for (int a = 0, pair = 0; a < m_.c_; ++a)
            for (int b = a + 1; b < m_.c_; ++b, ++pair) {
                g[b * row_ + a] = m_.bias_[pair];
                g[a * row_ + b] = -m_.bias_[pair];
            }
    }

    void tally() {
        for (int q = 0; q < rows_at_once; ++q) reset(outputs(q));
        for (int a = 0; a < m_.c_; ++a)
            for (int row = 0; row + 1 < m_.c_; ++row) {
                const int b = row < a ? row : row + 1;
                const float* support = &m_.support_[static_cast<std::size_t>(row) * places_];
                vfloat sums[rows_at_once] = {};
                for (int at = m_.start_[a]; at < m_.start_[a + 1]; at += lanes) {
                    const vfloat s = load(support + at);
                    for (int q = 0; q < rows_at_once; ++q) sums[q] += s * load(values(q) + at);
                }
                for (int q = 0; q < rows_at_once; ++q) add(outputs(q), a, b, sum(sums[q]));
            }
    }
    void add(float* g, int a, int b, float amount) const {
        g[a * row_ + b] += amount;
        g[b * row_ + a] -= amount;
    }

    // The leader is the class that wins all its pairs: whoever is beaten gives way to the one that beats
    // it most. Where the pairs form a circle nobody leads.
    float lean(const float* g, int& leader) const {
        if (m_.c_ == 2) {
            leader = g[row_] > 0;
            return std::abs(g[row_]);
        }
        float least = 0.0f;
        for (int hop = 0; hop < m_.c_; ++hop) {
            const float* row = g + leader * row_;
            vfloat low = load(row);
            for (int b = lanes; b < row_; b += lanes) low = min(low, load(row + b));
            least = -largest(-low);
            if (least > 0) return least;
            leader = static_cast<int>(std::min_element(row, row + m_.c_) - row);
        }
        return std::min(least, -1e-30f);
    }

    // --- The order of the walk: the best score of every block of sixteen, and the best of these.

    void rank(int q) {
        for (int a = 0; a < m_.c_; ++a) {
            cumulative_[a] = blocks_in(a) ? 0.0f : infinity;
            for (int b = 0; b < blocks_in(a); ++b) {
                const int at = m_.start_[a] + b * lanes;
                vfloat score = load(values(q) + at);
                if (walking_.weighted) score = max(score, -score) * load(&m_.weight_[at]);
                score = select(score == score, Kernel::finite(score), vfloat{}) + load(&m_.mask_[at]);
                store(&scores_[at], score);
                heads_[head_start_[a] + b] = largest(score);
            }
        }
    }

    int next() {
        int head = 0;
        if (walking_.balanced) {
            const auto lightest = std::ranges::min_element(cumulative_);
            const int a = static_cast<int>(lightest - cumulative_.begin());
            head = best_head(head_start_[a], head_start_[a + 1]);
            if (heads_[head] == -infinity) {  // this class has no vectors left
                *lightest = infinity;
                return next();
            }
        } else {
            head = best_head(0, head_start_.back());
        }
        const int a = class_of_head(head);
        const int at = m_.start_[a] + (head - head_start_[a]) * lanes;
        vfloat scores = load(&scores_[at]);
        const int lane = std::countr_zero(bits(scores == splat(heads_[head])));
        scores[lane] = -infinity;
        store(&scores_[at], scores);
        heads_[head] = largest(scores);
        cumulative_[a] += m_.weight_[at + lane];
        return at + lane;
    }
    int best_head(int first, int last) const {
        vfloat best = load(&heads_[first]);
        for (int h = first + lanes; h < last; h += lanes) best = max(best, load(&heads_[h]));
        const vfloat target = splat(largest(best));
        for (int h = first;; h += lanes)
            if (const std::uint32_t hits = bits(load(&heads_[h]) == target))
                return h + std::countr_zero(hits);
    }
    int class_of_head(int head) const {
        int a = 0;
        while (head >= head_start_[a + 1]) ++a;
        return a;
    }

    // An exact term joins the outputs, or takes the place of its approximation.
    void touch(int q, int place, const float* x, float* g) {
        const float* v = m_.vectors_[m_.at_place_[place]];
        const int d = m_.vectors_.d, a = m_.class_of_[place / lanes];
        const float t = m_.kernel_.kind == KernelKind::rbf ? squared_distance(x, v, d) : dot(x, v, d);
        float change = m_.kernel_(splat(t))[0];
        if (walking_.corrected) change -= values(q)[place];
        for (int row = 0; row + 1 < m_.c_; ++row)
            add(g, a, row < a ? row : row + 1,
                change * m_.support_[static_cast<std::size_t>(row) * places_ + place]);
    }

    const EarlyMachine& m_;
    Walking walking_;
    int places_, row_;
    AlignedVector<float> values_, outputs_, projected_, scores_, heads_;
    std::vector<int> head_start_;
    std::vector<float> cumulative_, linear_;
};

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

void EarlyMachine::answer(const Rows& queries, const LinearFilter& linear, const std::vector<Level>& levels,
                          const Walking& walking, const Answers& answers, Team& team) const {
    const int width = c_ == 2 ? 1 : c_;
    std::vector<std::unique_ptr<Worker>> workers(team.size());
    for_ranges(team, queries.n, queries_at_once, [&](std::int64_t begin, std::int64_t end, int member) {
        if (!workers[member]) workers[member] = std::make_unique<Worker>(*this, walking);
        Worker& worker = *workers[member];
        const auto say = [&](std::int64_t query, const float* outputs, std::int64_t touched) {
            worker.decide(outputs, answers.decisions + query * width, answers.labels + query);
            answers.n_touched[query] = static_cast<std::int32_t>(touched);
        };

        std::vector<std::int64_t> open, left;
        for (std::int64_t query = begin; query < end; ++query)
            if (linear.weights.n > 0 && worker.filter(linear, queries[query], worker.outputs(0)))
                say(query, worker.outputs(0), 0);
            else
                open.push_back(query);

        for (const Level& level : levels) {
            for_groups(queries, open, [&](std::size_t first, int n, const float* const* x) {
                team.check();
                worker.approximately(x, level.n_axes);
                for (int q = 0; q < n; ++q) {
                    const auto certain = [&](int step, int leader, float leaning) {
                        return leaning > level.thresholds[leader * (level.n_steps + 1) + step];
                    };
                    const int steps = worker.walk(q, x[q], level.n_steps, certain);
                    if (steps < 0)
                        left.push_back(open[first + q]);
                    else
                        say(open[first + q], worker.outputs(q), steps);
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

void EarlyMachine::trace(const Rows& queries, int n_axes, int n_steps, const Walking& walking,
                         std::int32_t* leaders, float* leanings, Team& team) const {
    std::vector<std::unique_ptr<Worker>> workers(team.size());
    for_ranges(team, queries.n, queries_at_once, [&](std::int64_t begin, std::int64_t end, int member) {
        if (!workers[member]) workers[member] = std::make_unique<Worker>(*this, walking);
        Worker& worker = *workers[member];
        std::vector<std::int64_t> all(end - begin);
        std::iota(all.begin(), all.end(), begin);
        for_groups(queries, all, [&](std::size_t first, int n, const float* const* x) {
            team.check();
            worker.approximately(x, n_axes);
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
