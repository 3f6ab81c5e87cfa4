// What the files of the Python module share: how arrays come in and go out, and errors.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <initializer_list>
#include <stdexcept>
#include <utility>
#include <vector>

#include "parallel.hpp"
#include "points.hpp"

namespace nb = nanobind;
namespace vicinal {

template <class T, int dimensions>
using In = nb::ndarray<const T, nb::ndim<dimensions>, nb::c_contig, nb::device::cpu>;
template <class T, int dimensions>
using InOut = nb::ndarray<T, nb::ndim<dimensions>, nb::c_contig, nb::device::cpu>;
template <class T>
using Out = nb::ndarray<nb::numpy, T>;

// Runs `work(team)` without the GIL; a pending Ctrl-C ends it and is raised.
template <class Work>
auto with_team(int n_threads, const Work& work) {
    const auto interrupted = [] {
        nb::gil_scoped_acquire gil;
        return PyErr_CheckSignals() != 0;
    };
    try {
        nb::gil_scoped_release released;
        Team team(n_threads, interrupted);
        return work(team);
    } catch (const Interrupted&) {
        throw nb::python_error();
    }
}

// Hands a vector over to NumPy without a copy.
template <class T>
Out<T> own(std::vector<T>&& values, std::initializer_list<std::size_t> shape = {}) {
    auto* kept = new std::vector<T>(std::move(values));
    nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
    if (shape.size()) return Out<T>(kept->data(), shape, owner);
    return Out<T>(kept->data(), {kept->size()}, owner);
}

template <class T>
Out<T> copy_of(const std::vector<T>& values, std::size_t n) {
    return own(std::vector<T>(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(n)));
}

inline void require(bool condition, const char* message) {
    if (!condition) throw std::invalid_argument(message);
}

template <class T>
void require_below(const T* index, std::size_t n, std::int64_t limit, const char* message) {
    bool inside = true;
    for (std::size_t i = 0; i < n; ++i)
        inside &= index[i] >= 0 && static_cast<std::int64_t>(index[i]) < limit;
    require(inside, message);
}

inline Rows rows(const In<float, 2>& a) {
    require(a.shape(0) < (std::size_t{1} << 31) - lanes, "at most 2^31 - 16 points fit in one index");
    require(a.shape(1) > 0 && a.shape(1) < (std::size_t{1} << 26), "points need between 1 and 2^26 features");
    return {a.data(), static_cast<std::int64_t>(a.shape(0)), static_cast<int>(a.shape(1))};
}

void bind_expansion(nb::module_& m);
void bind_ldkl(nb::module_& m);

}  // namespace vicinal
