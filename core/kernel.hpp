// Kernel functions, by scikit-learn's names and parameters.
//
//   linear       gamma <x, y>               (gamma undoes the common scale of the points)
//   rbf          exp(-gamma |x - y|^2)
//   polynomial   (gamma <x, y> + coef0)^degree
//   sigmoid      tanh(gamma <x, y> + coef0)   (nearest support vectors only: no distance goes with it)
#pragma once

#include <cmath>

#include "simd.hpp"

namespace vicinal {

enum class KernelKind : int { linear = 0, rbf = 1, polynomial = 2, sigmoid = 3 };

template <class T>
T integer_power(T x, int n) {
    T out = x - x + 1.0f;
    for (; n > 0; n >>= 1, x *= x)
        if (n & 1) out *= x;
    return out;
}

struct Kernel {
    KernelKind kind = KernelKind::linear;
    double gamma = 1.0;
    double coef0 = 0.0;
    int degree = 1;

    bool euclidean() const { return kind != KernelKind::polynomial; }

    // From what the points give (a squared distance for rbf, else a dot product) to the kernel's value.
    vfloat operator()(vfloat t) const {
        switch (kind) {
            case KernelKind::rbf: return exp_nonpositive(t * static_cast<float>(-gamma));
            case KernelKind::polynomial:
                return finite(
                    integer_power(t * static_cast<float>(gamma) + static_cast<float>(coef0), degree));
            case KernelKind::sigmoid: return tanh(t * static_cast<float>(gamma) + static_cast<float>(coef0));
            default: return t * static_cast<float>(gamma);
        }
    }
    // Far from all points a polynomial overflows; kept finite, its sums stay numbers.
    static vfloat finite(vfloat value) { return max(min(value, splat(1e30f)), splat(-1e30f)); }
    double from_dot(double dot) const {
        return kind == KernelKind::polynomial ? integer_power(gamma * dot + coef0, degree) : gamma * dot;
    }
};

}  // namespace vicinal
