// Points in blocks of sixteen: block b holds feature f of its sixteen points side by side.
//
// One query against one block is then a plain loop over the features, whatever their number, with
// no horizontal sum; every distance in the library is summed in this one order, so the tree and the
// scan agree to the last bit.
#pragma once

#include <cstdlib>
#include <memory>
#include <new>
#include <vector>

#include "kernel.hpp"
#include "simd.hpp"

namespace vicinal {

// A vector whose data starts on a cache line.
template <class T>
struct CacheAligned {
    using value_type = T;
    CacheAligned() = default;
    template <class U>
    CacheAligned(const CacheAligned<U>&) {}
    T* allocate(std::size_t n) {
        return static_cast<T*>(::operator new(n * sizeof(T), std::align_val_t{64}));
    }
    void deallocate(T* p, std::size_t) { ::operator delete(p, std::align_val_t{64}); }
    // resize() leaves new floats as they are: every use writes before it reads
    template <class U>
    void construct(U* p) {
        ::new (static_cast<void*>(p)) U;
    }
    template <class U, class... Args>
    void construct(U* p, Args&&... args) {
        ::new (static_cast<void*>(p)) U(std::forward<Args>(args)...);
    }
    template <class U>
    bool operator==(const CacheAligned<U>&) const {
        return true;
    }
};
template <class T>
using AlignedVector = std::vector<T, CacheAligned<T>>;

// Rows of a C-contiguous matrix that somebody else owns.
struct Rows {
    const float* data = nullptr;
    std::int64_t n = 0;
    int d = 0;
    const float* operator[](std::int64_t i) const { return data + i * d; }
};

// Writes the rows chosen by `index` into blocks; the last block is filled up with its last point.
template <class Index>
void gather_block(const Rows& rows, const Index* index, int n, float* block) {
    for (int lane = 0; lane < lanes; ++lane) {
        const float* row = rows[index[lane < n ? lane : n - 1]];
        for (int f = 0; f < rows.d; ++f) block[f * lanes + lane] = row[f];
    }
}

template <class Index>
void gather(const Rows& rows, const Index* index, std::int64_t n, float* blocks) {
    for (std::int64_t b = 0; b < n; b += lanes)
        gather_block(rows, index + b, static_cast<int>(std::min<std::int64_t>(lanes, n - b)),
                     blocks + b * rows.d);
}

// Squared Euclidean distances. Two running sums, so that the additions of neighbouring features
// overlap in the processor.
inline vfloat squared_distances(const float* x, const float* block, int d) {
    vfloat even{}, odd{};
    int f = 0;
    for (; f + 1 < d; f += 2) {
        const vfloat a = load(block + f * lanes) - x[f];
        const vfloat b = load(block + (f + 1) * lanes) - x[f + 1];
        even += a * a;
        odd += b * b;
    }
    if (f < d) {
        const vfloat a = load(block + f * lanes) - x[f];
        even += a * a;
    }
    return even + odd;
}

// The same for several points against one block, which is read once for all of them. The sums run in
// the same order, so the results are the same to the last bit.
inline constexpr int rows_at_once = 8;  // as many pairs of running sums as registers hold

inline void squared_distances(const float* const* x, const float* block, int d, vfloat* out) {
    vfloat even[rows_at_once] = {}, odd[rows_at_once] = {};
    int f = 0;
    for (; f + 1 < d; f += 2) {
        const vfloat a = load(block + f * lanes), b = load(block + (f + 1) * lanes);
        for (int r = 0; r < rows_at_once; ++r) {
            const vfloat s = a - x[r][f], t = b - x[r][f + 1];
            even[r] += s * s;
            odd[r] += t * t;
        }
    }
    if (f < d) {
        const vfloat a = load(block + f * lanes);
        for (int r = 0; r < rows_at_once; ++r) {
            const vfloat s = a - x[r][f];
            even[r] += s * s;
        }
    }
    for (int r = 0; r < rows_at_once; ++r) out[r] = even[r] + odd[r];
}

inline void dot_products(const float* const* x, const float* block, int d, vfloat* out) {
    // In registers: `out` may be where x is, for all that the compiler knows.
    vfloat sums[rows_at_once] = {};
    for (int f = 0; f < d; ++f) {
        const vfloat a = load(block + f * lanes);
        for (int r = 0; r < rows_at_once; ++r) sums[r] += a * x[r][f];
    }
    for (int r = 0; r < rows_at_once; ++r) out[r] = sums[r];
}

inline vfloat dot_products(const float* x, const float* block, int d) {
    vfloat sum{};
    for (int f = 0; f < d; ++f) sum += load(block + f * lanes) * x[f];
    return sum;
}

}  // namespace vicinal
