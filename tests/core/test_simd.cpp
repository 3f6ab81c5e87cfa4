// The vector functions, lane by lane, against what the standard library gives.

#include "simd.hpp"

#include <algorithm>
#include <cassert>

#include "random.hpp"

using namespace vicinal;

namespace {

void exp_is_that_of_the_standard_library() {
    for (double first = 0.0; first > -87.0; first -= 1.0 / 64) {
        float x[lanes], y[lanes];
        for (int l = 0; l < lanes; ++l) x[l] = std::max(-87.0f, static_cast<float>(first - l / 1024.0));
        store(y, exp_nonpositive(load(x)));
        for (int l = 0; l < lanes; ++l) {
            const double expected = std::exp(static_cast<double>(x[l]));
            assert(std::abs(y[l] - expected) <= 3e-7 * expected);
        }
    }
}

void exp_at_the_ends_of_its_range() {
    for (const float zero : {0.0f, -0.0f}) assert(exp_nonpositive(splat(zero))[3] == 1.0f);
    for (const float tiny : {-1e-45f, -1e-38f, -1e-10f}) assert(exp_nonpositive(splat(tiny))[3] == 1.0f);
    for (const float huge : {-87.5f, -104.0f, -1e4f, -1e30f, -3e38f, -infinity}) {
        const float y = exp_nonpositive(splat(huge))[3];
        assert(y >= 0.0f && y < 2e-38f);
    }
}

void exp_does_not_grow_as_its_argument_falls() {
    float last = 1.0f;
    for (float x = 0.0f; x > -100.0f; x -= 1.0f / 128) {
        const float y = exp_nonpositive(splat(x))[0];
        assert(y <= last);
        last = y;
    }
}

void transpose_swaps_rows_and_columns() {
    vfloat rows[lanes];
    for (int i = 0; i < lanes; ++i)
        for (int j = 0; j < lanes; ++j) rows[i][j] = static_cast<float>(i * lanes + j);
    transpose(rows);
    for (int i = 0; i < lanes; ++i)
        for (int j = 0; j < lanes; ++j) assert(rows[i][j] == static_cast<float>(j * lanes + i));
}

void bits_has_one_bit_a_lane() {
    Random random(1);
    for (int trial = 0; trial < 1000; ++trial) {
        const std::uint32_t expected = trial < lanes ? 1u << trial : random.generator() & 0xffff;
        vint mask;
        for (int l = 0; l < lanes; ++l) mask[l] = expected >> l & 1 ? -1 : 0;
        assert(bits(mask) == expected);
    }
    assert(bits(splat(1.0f) > 0.0f) == 0xffff);
    assert(bits(splat(-infinity) > -infinity) == 0);
}

void sum_and_largest_see_every_lane() {
    for (int l = 0; l < lanes; ++l) {
        vfloat one{};
        one[l] = 1.0f;
        assert(sum(one) == 1.0f);
        assert(largest(one) == 1.0f);
        assert(largest(one - 5.0f) == -4.0f);
        vfloat finite = splat(-infinity);
        finite[l] = -3.0f;
        assert(largest(finite) == -3.0f);
    }
    vfloat counted;
    for (int l = 0; l < lanes; ++l) counted[l] = static_cast<float>(1 << l);
    assert(sum(counted) == 65535.0f);
}

void the_small_functions() {
    const vfloat a = splat(2.0f), b = splat(3.0f);
    const vint which = lane_index() < 5;
    const vfloat chosen = select(which, a, b), root = sqrt(splat(6.25f)),
                 reciprocal = approximate_reciprocal(splat(4.0f));
    for (int l = 0; l < lanes; ++l) {
        assert(chosen[l] == (l < 5 ? 2.0f : 3.0f));
        assert(root[l] == 2.5f);
        assert(std::abs(reciprocal[l] - 0.25f) < 1e-3f);
        assert(max(a, b)[l] == 3.0f && min(a, b)[l] == 2.0f);
    }
    assert(padded(1) == 16 && padded(16) == 16 && padded(17) == 32 && padded(0) == 0);
    assert(n_blocks(0) == 0 && n_blocks(16) == 1 && n_blocks(17) == 2);
}

}  // namespace

int main() {
    exp_is_that_of_the_standard_library();
    exp_at_the_ends_of_its_range();
    exp_does_not_grow_as_its_argument_falls();
    transpose_swaps_rows_and_columns();
    bits_has_one_bit_a_lane();
    sum_and_largest_see_every_lane();
    the_small_functions();
}
