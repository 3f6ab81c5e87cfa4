// What one thread needs to walk with a machine of nearest support vectors; see nsv.hpp.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "gram.hpp"
#include "nsv.hpp"

namespace vicinal {

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
inline float dot(const float* x, const float* y, int d) {
    return sum_of_terms(x, y, d, [](auto a, auto b) { return a * b; });
}
inline float squared_distance(const float* x, const float* y, int d) {
    return sum_of_terms(x, y, d, [](auto a, auto b) { return (a - b) * (a - b); });
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
          class_scores_(machine.c_),
          scores_of_one_(machine.c_) {
        projected_.resize(static_cast<std::size_t>(padded(std::max(m_.n_axes_, m_.n_landmarks_))) *
                          rows_at_once);
        spanning_.resize(static_cast<std::size_t>(padded(m_.n_landmarks_)) * rows_at_once);
        scores_.resize(places_);
        heads_.assign(m_.head_start_.back(), -infinity);
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

    // The same approximated; `ordered` if a walk is to follow.
    void approximately(const float* const* x, Embedding embedding, int n_axes, bool ordered) {
        by_blocks_ = embedding == Embedding::index;
        if (embedding == Embedding::pca) {
            project(x, n_axes);
        } else if (embedding == Embedding::kernel_pca) {
            span(x, n_axes);
            sum_up(n_axes);
            if (ordered) multiply_out(n_axes);
        } else {
            visit_centres(x);
        }
    }

    // The axes of the landmarks.
    void span(const float* const* x, int n_axes) {
        const int d = m_.vectors_.d, stride = padded(n_axes), n = m_.n_landmarks_;
        vfloat t[rows_at_once];
        const float* k[rows_at_once];
        for (int at = 0; at < stride; at += lanes) {
            ingredients(m_.kernel_, x, &m_.landmarks_[static_cast<std::size_t>(at) * d], d, t);
            for (int q = 0; q < rows_at_once; ++q) store(&spanning_[q * stride + at], m_.kernel_(t[q]));
        }
        for (int q = 0; q < rows_at_once; ++q) k[q] = &spanning_[q * stride];
        for (int at = 0; at < stride; at += lanes) {
            dot_products(k, &m_.basis_[static_cast<std::size_t>(at) * n], std::min(at + lanes, n_axes), t);
            for (int q = 0; q < rows_at_once; ++q) store(&projected_[q * stride + at], t[q]);
        }
    }
    const float* projection(int q, int n_axes) const { return &projected_[q * padded(n_axes)]; }

    // Walks from the approximations of one query; after every step, says who leads and how far, until
    // `stop` is content. Returns whether it ever was.
    template <class Stop>
    bool walk(int q, const float* x, int n_steps, const Stop& stop) {
        float* g = outputs(q);
        if (!walking_.corrected) reset(g);
        int leader = 0;
        float leaning = lean(g, leader);
        n_touched_ = 0;
        if (stop(0, leader, leaning)) return true;
        if (n_steps > 0) by_blocks_ ? rank_blocks(q) : rank(q);
        for (int step = 1; step <= n_steps; ++step) {
            by_blocks_ ? touch_block(q, next_head(), x, g) : touch(q, next(), x, g);
            leaning = lean(g, leader);
            if (stop(step, leader, leaning)) return true;
        }
        return false;
    }
    int n_touched() const { return n_touched_; }  // vectors, by the last walk

    // Whether the leader of some scores, those of all classes or of the second of two, leads by more than
    // its threshold; then the outputs become their differences.
    bool believe(const float* scores, int n_scores, const float* thresholds, float* g) {
        const int c = m_.c_;
        float best = -infinity, second = -infinity;
        int leader = 0;
        for (int a = 0; a < c; ++a) {
            const float score = n_scores == c ? scores[a] : a == 0 ? 0.0f : scores[0];
            class_scores_[a] = score;
            if (score > best) {
                second = best;
                best = score;
                leader = a;
            } else {
                second = std::max(second, score);
            }
        }
        if (!(best - second > thresholds[leader])) return false;
        for (int a = 0; a < c; ++a)
            for (int b = 0; b < c; ++b)
                if (a != b) g[a * row_ + b] = class_scores_[a] - class_scores_[b];
        return true;
    }
    bool filter(const LinearFilter& f, const float* x) {
        const int rows = static_cast<int>(f.weights.n);
        for (int row = 0; row < rows; ++row)
            scores_of_one_[row] = dot(x, f.weights[row], f.weights.d) + f.bias[row];
        return believe(scores_of_one_.data(), rows, f.thresholds, outputs(0));
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

    // Outputs from values that there is one of for each place, or for each block.
    void tally() { tally(m_.start_, m_.support_); }
    void tally(const std::vector<int>& start, const AlignedVector<float>& all_support) {
        for (int q = 0; q < rows_at_once; ++q) reset(outputs(q));
        for (int a = 0; a < m_.c_; ++a)
            for (int row = 0; row + 1 < m_.c_; ++row) {
                const int b = row < a ? row : row + 1;
                const float* support = &all_support[static_cast<std::size_t>(row) * start.back()];
                vfloat sums[rows_at_once] = {};
                for (int at = start[a]; at < start[a + 1]; at += lanes) {
                    const vfloat s = load(support + at);
                    for (int q = 0; q < rows_at_once; ++q) sums[q] += s * load(values(q) + at);
                }
                for (int q = 0; q < rows_at_once; ++q) add(outputs(q), a, b, sum(sums[q]));
            }
    }

    // Kernel values from dot products on principal axes.
    void project(const float* const* x, int n_axes) {
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

    // Outputs and kernel values from the axes of the landmarks.
    void sum_up(int n_axes) {
        const int n = m_.n_landmarks_, n_pairs = m_.c_ * (m_.c_ - 1) / 2;
        vfloat t[rows_at_once];
        const float* z[rows_at_once];
        for (int q = 0; q < rows_at_once; ++q) z[q] = projection(q, n_axes);
        for (int q = 0; q < rows_at_once; ++q) reset(outputs(q));
        for (int first = 0, a = 0, b = 1; first < n_pairs; first += lanes) {
            dot_products(z, &m_.sums_[static_cast<std::size_t>(first) * n], n_axes, t);
            for (int pair = first; pair < std::min(first + lanes, n_pairs); ++pair) {
                for (int q = 0; q < rows_at_once; ++q) add(outputs(q), b, a, t[q][pair - first]);
                if (++b == m_.c_) b = ++a + 1;
            }
        }
    }
    void multiply_out(int n_axes) {
        vfloat t[rows_at_once];
        const float* z[rows_at_once];
        for (int q = 0; q < rows_at_once; ++q) z[q] = projection(q, n_axes);
        for (int at = 0; at < places_; at += lanes) {
            dot_products(z, &m_.spanned_[static_cast<std::size_t>(at) * m_.n_landmarks_], n_axes, t);
            for (int q = 0; q < rows_at_once; ++q) store(values(q) + at, t[q]);
        }
    }

    void visit_centres(const float* const* x) {
        const int d = m_.vectors_.d;
        vfloat t[rows_at_once];
        for (int at = 0; at < m_.head_start_.back(); at += lanes) {
            const std::size_t block = static_cast<std::size_t>(at) * d;
            if (m_.kernel_.kind == KernelKind::rbf) {
                std::fill_n(t, rows_at_once, vfloat{});
                for (int f = 0; f < d; ++f) {
                    const vfloat shrink = load(&m_.shrink_[block + f * lanes]);
                    const vfloat centre = load(&m_.centres_[block + f * lanes]);
                    for (int q = 0; q < rows_at_once; ++q) {
                        const vfloat gap = shrink * x[q][f] - centre;
                        t[q] += gap * gap;
                    }
                }
            } else {
                dot_products(x, &m_.centres_[block], d, t);
            }
            const vfloat scale = load(&m_.centre_scale_[at]);
            for (int q = 0; q < rows_at_once; ++q) store(values(q) + at, scale * m_.kernel_(t[q]));
        }
        tally(m_.head_start_, m_.centre_support_);
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
            cumulative_[a] = m_.blocks_in(a) ? 0.0f : infinity;
            for (int b = 0; b < m_.blocks_in(a); ++b) {
                const int at = m_.start_[a] + b * lanes;
                vfloat score = load(values(q) + at);
                score = score_of(score, &m_.weight_[at], &m_.mask_[at]);
                store(&scores_[at], score);
                heads_[m_.head_start_[a] + b] = largest(score);
            }
        }
    }

    void rank_blocks(int q) {
        for (int a = 0; a < m_.c_; ++a) {
            cumulative_[a] = m_.blocks_in(a) ? 0.0f : infinity;
            for (int at = m_.head_start_[a]; at < m_.head_start_[a + 1]; at += lanes)
                store(&heads_[at],
                      score_of(load(values(q) + at), &m_.centre_weight_[at], &m_.centre_mask_[at]));
        }
    }
    vfloat score_of(vfloat value, const float* weight, const float* mask) const {
        if (walking_.weighted) value = max(value, -value) * load(weight);
        return select(value == value, Kernel::finite(value), vfloat{}) + load(mask);
    }

    // The best head, of the class that is next.
    int next_head() {
        int head = 0;
        if (walking_.balanced) {
            const auto lightest = std::ranges::min_element(cumulative_);
            const int a = static_cast<int>(lightest - cumulative_.begin());
            head = best_head(m_.head_start_[a], m_.head_start_[a + 1]);
            if (heads_[head] == -infinity) {  // this class has no vectors left
                *lightest = infinity;
                return next_head();
            }
        } else {
            head = best_head(0, m_.head_start_.back());
        }
        return head;
    }
    int next() {
        const int head = next_head(), a = class_of_head(head);
        const int at = m_.start_[a] + (head - m_.head_start_[a]) * lanes;
        vfloat scores = load(&scores_[at]);
        const int lane = std::countr_zero(bits(scores == splat(heads_[head])));
        scores[lane] = -infinity;
        store(&scores_[at], scores);
        heads_[head] = largest(scores);
        burden(a, m_.weight_[at + lane]);
        return at + lane;
    }
    // However heavy, a class that has vectors left weighs less than infinity.
    void burden(int a, float weight) {
        cumulative_[a] = std::min(cumulative_[a] + weight, std::numeric_limits<float>::max());
    }
    int best_head(int first, int last) const {
        vfloat four[4] = {splat(-infinity), splat(-infinity), splat(-infinity), splat(-infinity)};
        int at = first;
        for (; at + 4 * lanes <= last; at += 4 * lanes)
            for (int i = 0; i < 4; ++i) four[i] = max(four[i], load(&heads_[at + i * lanes]));
        for (; at < last; at += lanes) four[0] = max(four[0], load(&heads_[at]));
        const vfloat best = max(max(four[0], four[1]), max(four[2], four[3]));
        const vfloat target = splat(largest(best));
        for (int h = first;; h += lanes)
            if (const std::uint32_t hits = bits(load(&heads_[h]) == target))
                return h + std::countr_zero(hits);
    }
    int class_of_head(int head) const {
        int a = 0;
        while (head >= m_.head_start_[a + 1]) ++a;
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
        ++n_touched_;
    }

    // The same for all vectors of a block.
    void touch_block(int q, int head, const float* x, float* g) {
        const int a = class_of_head(head), d = m_.vectors_.d;
        const int at = m_.start_[a] + (head - m_.head_start_[a]) * lanes;
        vfloat change =
            m_.kernel_(ingredients(m_.kernel_, x, &m_.blocks_[static_cast<std::size_t>(at) * d], d));
        if (walking_.corrected) change -= values(q)[head];
        for (int row = 0; row + 1 < m_.c_; ++row)
            add(g, a, row < a ? row : row + 1,
                sum(change * load(&m_.support_[static_cast<std::size_t>(row) * places_ + at])));
        heads_[head] = -infinity;
        burden(a, m_.centre_weight_[head]);
        n_touched_ += m_.in_block_[head];
    }

    const EarlyMachine& m_;
    Walking walking_;
    int places_, row_, n_touched_ = 0;
    bool by_blocks_ = false;
    AlignedVector<float> values_, outputs_, spanning_, projected_, scores_, heads_;
    std::vector<float> cumulative_, class_scores_, scores_of_one_;
};

}  // namespace vicinal
