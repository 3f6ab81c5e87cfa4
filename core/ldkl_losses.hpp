// Losses of one sample: from its scores to the loss, and to the loss's derivatives by the scores.
#pragma once

#include <algorithm>
#include <cmath>

#include "ldkl_training.hpp"

namespace vicinal {

// Two classes have one score, whose sign is the class; more have a score each. `target` is a code.
inline double loss_of(Loss loss, const float* scores, int n, float target, float* deltas) {
    if (loss == Loss::squared) {
        const double error = static_cast<double>(scores[0]) - target;
        deltas[0] = static_cast<float>(error);
        return 0.5 * error * error;
    }
    if (n == 1) {
        const double sign = target > 0.0f ? 1.0 : -1.0, margin = sign * scores[0];
        switch (loss) {
            case Loss::hinge:
                deltas[0] = static_cast<float>(margin < 1.0 ? -sign : 0.0);
                return std::max(0.0, 1.0 - margin);
            case Loss::squared_hinge: {
                const double short_of = std::max(0.0, 1.0 - margin);
                deltas[0] = static_cast<float>(-2.0 * sign * short_of);
                return short_of * short_of;
            }
            default: {  // logistic, in the form whose exponential cannot overflow
                const double e = std::exp(-std::abs(margin));
                deltas[0] = static_cast<float>(-sign * (margin > 0 ? e / (1.0 + e) : 1.0 / (1.0 + e)));
                return std::log1p(e) + std::max(0.0, -margin);
            }
        }
    }
    const int own = static_cast<int>(target);
    if (loss == Loss::logistic) {
        const double top = *std::max_element(scores, scores + n);
        double total = 0.0;
        for (int c = 0; c < n; ++c) total += std::exp(scores[c] - top);
        for (int c = 0; c < n; ++c)
            deltas[c] = static_cast<float>(std::exp(scores[c] - top) / total) - (c == own ? 1.0f : 0.0f);
        return std::log(total) + top - scores[own];
    }
    // the multi-class hinge of Crammer & Singer: against the strongest rival
    int rival = own == 0 ? 1 : 0;
    for (int c = 0; c < n; ++c)
        if (c != own && scores[c] > scores[rival]) rival = c;
    const double short_of = std::max(0.0, 1.0 - (static_cast<double>(scores[own]) - scores[rival]));
    std::fill(deltas, deltas + n, 0.0f);
    if (short_of > 0.0) {
        const double slope = loss == Loss::squared_hinge ? 2.0 * short_of : 1.0;
        deltas[rival] = static_cast<float>(slope);
        deltas[own] = static_cast<float>(-slope);
    }
    return loss == Loss::squared_hinge ? short_of * short_of : short_of;
}

}  // namespace vicinal
