// Which candidates become centres, and which centre owns each point.
#pragma once

#include <cstdint>

namespace vicinal {

// Goes through the candidates in order. One that an earlier neighbourhood covers is refused. One that
// is accepted covers its first n_assigned neighbours and itself, and comes to own every point whose
// rank, its place in the neighbourhood, is lower here than in any neighbourhood before. So the outcome
// is that of taking candidates one by one, whatever batches their neighbours were searched in.
inline void accept_centres(const std::int32_t* candidates, std::int64_t n, const std::int32_t* neighbours,
                           int k, int n_assigned, std::uint8_t* covered, std::int32_t* ranks,
                           std::int32_t* owners, std::int32_t first_id, bool* accepted) {
    std::int32_t id = first_id;
    for (std::int64_t i = 0; i < n; ++i) {
        const std::int32_t centre = candidates[i];
        accepted[i] = !covered[centre];
        if (!accepted[i]) continue;
        const auto claim = [&](std::int32_t point, std::int32_t rank) {
            covered[point] = 1;
            if (rank >= ranks[point]) return;
            ranks[point] = rank;
            owners[point] = id;
        };
        claim(centre, 0);  // even if twins of the centre fill its neighbourhood
        for (int h = 0; h < n_assigned; ++h) claim(neighbours[i * k + h], h);
        ++id;
    }
}

}  // namespace vicinal
