// Cover tree: exact nearest neighbours, and the levels from which centres are chosen.
//
// Problem. Given n points of a metric space and a base b > 1, give every point one level (an integer)
// and one parent, so that with C_i = {points of level >= i}
//   nesting      C_i contains C_{i+1},
//   covering     a point of level i has its parent in C_{i+1}, no farther than b^{i+1},
//   separation   a point of level i is farther than b^i from its parent and from every sibling in C_i.
// Duplicates of a point have the level `duplicate` and that point as their parent.
//
// This is the compressed tree of Elkin & Kurlin (A new near-linear time algorithm for k-nearest
// neighbor search using a compressed cover tree, ICML 2023), with separation among siblings as in
// Izbicki & Shelton (Faster cover trees, ICML 2015). Separation from all of C_i, as in Beygelzimer,
// Kakade & Langford (Cover trees for nearest neighbor, ICML 2006), would cost a neighbour search for
// every point that is inserted.
//
// Building goes from the top: the points of a node are split among children taken farthest first
// until all are within b^i of one, then each goes to its nearest. That is (children per node) x
// (levels) distances a point, in contiguous memory, instead of one insertion after the other.
//
// For queries, a node is a cell: a ball around its point that holds a contiguous range of the points.
// The children of a cell lie side by side in blocks, small cells are leaves that are scanned, and
// cells are visited nearest first. With intrinsic dimension D a query costs about b^D log n distances.
#pragma once

#include <cstdint>
#include <vector>

#include "neighbours.hpp"

namespace vicinal {

class CoverTree {
  public:
    static constexpr std::int32_t duplicate = std::numeric_limits<std::int32_t>::min();

    // A ball around a point. The children of a cell are contiguous; the first has the cell's own centre.
    struct Cell {
        std::int32_t centre;
        std::int32_t begin, end;  // the cell's points: positions in `order`
        std::int32_t first_child = 0, n_children = 0;
        float radius;  // distance from the centre to the farthest point of the cell
    };

    // What is stored of a tree; the rest follows from it and the points.
    struct State {
        double base;
        std::vector<std::int32_t> order;    // points, cell by cell
        std::vector<std::int32_t> levels;   // by point
        std::vector<std::int32_t> parents;  // by point; -1 for the root
        std::vector<Cell> cells;            // cells[0] is the root
    };

    // base <= 1: chosen from the data, so that a cell has about eight children.
    CoverTree(Rows rows, const Metric& metric, double base, Team& team);
    CoverTree(Rows rows, const Metric& metric, State state, Team& team);

    // Returns the number of distances computed, which tells whether a scan would have been cheaper.
    std::int64_t query(const Rows& queries, int k, Neighbourhoods out, Team& team) const;
    RadiusNeighbours query_radius(const Rows& queries, float squared_radius, Team& team) const;

    const State& state() const { return state_; }

  private:
    struct Frontier;
    void prepare(Team& team);
    std::vector<std::int32_t> cell_by_cell(const Rows& queries, Team& team) const;
    int nearest_child(const float* x, double x_self, std::int32_t cell) const;
    template <class Bound, class Visit>
    void search(const float* x, double x_self, Frontier& frontier, const Bound& bound,
                const Visit& visit) const;

    Rows rows_;
    Metric metric_;
    State state_;
    double largest_self_ = 0.0;              // of the polynomial metric
    BlockedPoints points_;                   // in the order of the cells
    std::vector<float> to_centre_;           // by position: distance to the centre of its leaf
    std::vector<std::int64_t> child_block_;  // by cell: first block of its children's centres
    BlockedPoints child_centres_;
    AlignedVector<float> child_radius_;  // by slot of those blocks
    AlignedVector<float> child_to_parent_;
};

}  // namespace vicinal
