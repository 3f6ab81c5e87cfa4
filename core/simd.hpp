// One wide vector of sixteen floats, written with compiler vector extensions.
//
// The compiler splits it into what the instruction set has (one AVX-512, two AVX2 or four SSE/NEON
// registers), so every instruction set runs the same source with the same order of operations.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#if defined(__x86_64__) || defined(_M_X64)
#include <immintrin.h>
#endif

namespace vicinal {

inline constexpr int lanes = 16;
inline constexpr float infinity = std::numeric_limits<float>::infinity();

using vfloat = float __attribute__((vector_size(64)));
using vint = std::int32_t __attribute__((vector_size(64)));

inline constexpr int padded(int n) { return (n + lanes - 1) / lanes * lanes; }
inline constexpr std::int64_t n_blocks(std::int64_t n) { return (n + lanes - 1) / lanes; }

inline vfloat splat(float x) { return x - vfloat{}; }
inline vint splat(std::int32_t x) { return x - vint{}; }
inline vint lane_index() { return vint{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}; }

// memcpy is how the standard spells an unaligned load; it compiles to one instruction.
inline vfloat load(const float* p) {
    vfloat v;
    std::memcpy(&v, p, sizeof v);
    return v;
}
inline void store(float* p, vfloat v) { std::memcpy(p, &v, sizeof v); }
inline void store(std::int32_t* p, vint v) { std::memcpy(p, &v, sizeof v); }

inline vfloat select(vint mask, vfloat a, vfloat b) { return mask ? a : b; }
inline vint select(vint mask, vint a, vint b) { return mask ? a : b; }
inline vfloat max(vfloat a, vfloat b) { return a > b ? a : b; }
inline vfloat min(vfloat a, vfloat b) { return a < b ? a : b; }

// One bit a lane, so that scalar code can walk over the lanes of a mask.
inline std::uint32_t bits(vint mask) {
#if defined(__AVX512DQ__)
    return _mm512_movepi32_mask(reinterpret_cast<__m512i>(mask));
#elif defined(__AVX2__)
    __m256 half[2];
    std::memcpy(half, &mask, sizeof mask);
    return static_cast<std::uint32_t>(_mm256_movemask_ps(half[0])) |
           static_cast<std::uint32_t>(_mm256_movemask_ps(half[1])) << 8;
#elif defined(__SSE2__)
    __m128 quarter[4];
    std::memcpy(quarter, &mask, sizeof mask);
    std::uint32_t out = 0;
    for (int i = 0; i < 4; ++i) out |= static_cast<std::uint32_t>(_mm_movemask_ps(quarter[i])) << (4 * i);
    return out;
#else
    std::uint32_t out = 0;
    for (int i = 0; i < lanes; ++i) out |= static_cast<std::uint32_t>(mask[i] != 0) << i;
    return out;
#endif
}

inline vfloat sqrt(vfloat v) {
#if defined(__AVX512F__)
    return reinterpret_cast<vfloat>(_mm512_sqrt_ps(reinterpret_cast<__m512>(v)));
#else
    vfloat out;
    for (int i = 0; i < lanes; ++i) out[i] = std::sqrt(v[i]);
    return out;
#endif
}

// An approximate reciprocal is enough where its only use is to rank candidates.
inline vfloat approximate_reciprocal(vfloat v) {
#if defined(__AVX512F__)
    return reinterpret_cast<vfloat>(_mm512_rcp14_ps(reinterpret_cast<__m512>(v)));
#else
    return 1.0f / v;
#endif
}

inline float sum(vfloat v) {
    vfloat t = v + __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7);
    t += __builtin_shufflevector(t, t, 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11);
    t += __builtin_shufflevector(t, t, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13);
    return t[0] + t[1];
}

inline float largest(vfloat v) {
    vfloat t = max(v, __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7));
    t = max(t, __builtin_shufflevector(t, t, 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11));
    t = max(t, __builtin_shufflevector(t, t, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13));
    return t[0] > t[1] ? t[0] : t[1];
}

// Runs four rounds over pairs of rows 8, 4, 2 and 1 apart: of each pair `low` and `high` take the lanes
// that change places when rows become columns.
template <class Body>
void for_swaps(const Body& body) {
    body(
        8,
        [](vfloat a, vfloat b) {
            return __builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23);
        },
        [](vfloat a, vfloat b) {
            return __builtin_shufflevector(a, b, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30,
                                           31);
        });
    body(
        4,
        [](vfloat a, vfloat b) {
            return __builtin_shufflevector(a, b, 0, 1, 2, 3, 16, 17, 18, 19, 8, 9, 10, 11, 24, 25, 26, 27);
        },
        [](vfloat a, vfloat b) {
            return __builtin_shufflevector(a, b, 4, 5, 6, 7, 20, 21, 22, 23, 12, 13, 14, 15, 28, 29, 30, 31);
        });
    body(
        2,
        [](vfloat a, vfloat b) {
            return __builtin_shufflevector(a, b, 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29);
        },
        [](vfloat a, vfloat b) {
            return __builtin_shufflevector(a, b, 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31);
        });
    body(
        1,
        [](vfloat a, vfloat b) {
            return __builtin_shufflevector(a, b, 0, 16, 2, 18, 4, 20, 6, 22, 8, 24, 10, 26, 12, 28, 14, 30);
        },
        [](vfloat a, vfloat b) {
            return __builtin_shufflevector(a, b, 1, 17, 3, 19, 5, 21, 7, 23, 9, 25, 11, 27, 13, 29, 15, 31);
        });
}

// Rows become columns.
inline void transpose(vfloat (&row)[lanes]) {
    for_swaps([&](int distance, auto low, auto high) {
        for (int i = 0; i < lanes; ++i) {
            if (i & distance) continue;
            const vfloat a = row[i], b = row[i + distance];
            row[i] = low(a, b);
            row[i + distance] = high(a, b);
        }
    });
}

// The sum of each row, one a lane: a transposition that adds instead of keeping both halves.
inline vfloat sums(vfloat (&row)[lanes]) {
    for_swaps([&](int distance, auto low, auto high) {
        for (int i = 0; i < distance; ++i) {
            const vfloat a = row[i], b = row[i + distance];
            row[i] = low(a, b) + high(a, b);
        }
    });
    return row[0];
}

// exp(x) for x <= 0, to about one unit in the last place: 2^n times a polynomial on [-ln2/2, ln2/2].
// Below -87 the result would be denormal and is rounded to the smallest normal scale instead.
inline vfloat exp_nonpositive(vfloat x) {
    x = max(x, splat(-87.0f));
    const float magic = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer
    const vfloat t = x * 1.44269504088896341f + magic;
    const vfloat n = t - magic;
    const vfloat r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
    vfloat p = splat(1.9875691500e-4f);
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * (r * r) + r + 1.0f;
    const vint scale = (__builtin_convertvector(n, vint) + 127) << 23;
    vfloat s;
    std::memcpy(&s, &scale, sizeof s);
    return p * s;
}

// tanh(x) to a few units in the last place: its Taylor series near zero, where the quotient of
// exponentials would cancel.
inline vfloat tanh(vfloat x) {
    const vfloat size = max(x, -x), square = x * x;
    vfloat p = splat(-8.8632355299e-3f);
    p = p * square + 2.1869488536e-2f;
    p = p * square - 5.3968253968e-2f;
    p = p * square + 1.3333333333e-1f;
    p = p * square - 3.3333333333e-1f;
    const vfloat e = exp_nonpositive(-2.0f * size), far = (1.0f - e) / (1.0f + e);
    return select(size < splat(0.3f), x + x * square * p, select(x < vfloat{}, -far, far));
}

}  // namespace vicinal
