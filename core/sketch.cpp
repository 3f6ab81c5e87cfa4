#include "sketch.hpp"

#include <algorithm>
#include <numeric>

#include "gram.hpp"

namespace vicinal {

namespace {

void to_blocks(const Rows& rows, AlignedVector<float>& blocks) {
    std::vector<std::int64_t> index(rows.n);
    std::iota(index.begin(), index.end(), 0);
    blocks.resize(static_cast<std::size_t>(padded(static_cast<int>(rows.n))) * rows.d);
    gather(rows, index.data(), rows.n, blocks.data());
}

}  // namespace

Sketch::Sketch(const SketchArrays& arrays, const Kernel& kernel)
    : kernel_(kernel),
      d_(arrays.axes.d),
      n_axes_(static_cast<int>(arrays.axes.n)),
      n_landmarks_(static_cast<int>(arrays.landmarks.n)),
      linear_(arrays.linear),
      bias_(arrays.bias),
      thresholds_(arrays.thresholds) {
    to_blocks(arrays.axes, axes_);
    to_blocks(arrays.landmarks, landmarks_);
    weights_.resize(n_places() * linear_.n);
    for (int a = 0; a < n_scores(); ++a) {
        float* row = &weights_[a * n_places()];
        std::fill(std::copy_n(arrays.weights[a], n_landmarks_, row), row + n_places(), 0.0f);
    }
}

void Sketch::score(const float* const* x, float* scratch, float* scores) const {
    float* const values = scratch + rows_at_once * axes_padded();
    const float* z[rows_at_once];
    vfloat t[rows_at_once];
    for (int q = 0; q < rows_at_once; ++q) z[q] = scratch + q * axes_padded();
    for (std::size_t at = 0; at < axes_padded(); at += lanes) {
        dot_products(x, &axes_[at * d_], d_, t);
        for (int q = 0; q < rows_at_once; ++q) store(scratch + q * axes_padded() + at, t[q]);
    }
    for (std::size_t at = 0; at < n_places(); at += lanes) {
        ingredients(kernel_, z, &landmarks_[at * n_axes_], n_axes_, t);
        for (int q = 0; q < rows_at_once; ++q) store(values + at * rows_at_once + q * lanes, kernel_(t[q]));
    }
    for (int a = 0; a < n_scores(); ++a) {
        vfloat sums[rows_at_once] = {};
        for (std::size_t at = 0; at < n_places(); at += lanes) {
            const vfloat w = load(&weights_[a * n_places() + at]);
            for (int q = 0; q < rows_at_once; ++q)
                sums[q] += w * load(values + at * rows_at_once + q * lanes);
        }
        for (int q = 0; q < rows_at_once; ++q) {
            float score = bias_[a] + sum(sums[q]);
            for (int j = 0; j < n_axes_; ++j) score += linear_[a][j] * z[q][j];
            scores[q * n_scores() + a] = score;
        }
    }
}

}  // namespace vicinal
