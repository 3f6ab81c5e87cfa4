// Points and labels for the tests: the same ones at every run and on every machine.
#pragma once

#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

#include "points.hpp"

namespace vicinal {

// The generator is the standard's to the last bit; its distributions are not, so they are made here.
struct Random {
    std::mt19937 generator;
    explicit Random(unsigned seed) : generator(seed) {}

    int below(int n) { return static_cast<int>(generator() % static_cast<unsigned>(n)); }
    double uniform() { return generator() / 4294967296.0; }
    // Nearly normal, of mean 0 and variance 1.
    float normal() {
        double sum = -6.0;
        for (int i = 0; i < 12; ++i) sum += uniform();
        return static_cast<float>(sum);
    }
};

struct Points {
    std::vector<float> data;
    int d;

    std::int64_t n() const { return static_cast<std::int64_t>(data.size()) / d; }
    Rows rows() const { return {data.data(), n(), d}; }
};

inline Points normal_points(int n, int d, unsigned seed) {
    Random random(seed);
    Points points{std::vector<float>(static_cast<std::size_t>(n) * d), d};
    for (float& x : points.data) x = random.normal();
    return points;
}

// Small integers: distances are exact in single precision, and many of them are equal.
inline Points grid_points(int n, int d, unsigned seed) {
    Random random(seed);
    Points points{std::vector<float>(static_cast<std::size_t>(n) * d), d};
    for (float& x : points.data) x = static_cast<float>(random.below(7) - 3);
    return points;
}

inline std::vector<std::int32_t> all_of(int n) {
    std::vector<std::int32_t> index(n);
    std::iota(index.begin(), index.end(), 0);
    return index;
}

}  // namespace vicinal
