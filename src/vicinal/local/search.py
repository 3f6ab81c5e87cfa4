"""Parameters for all machines, by the cross-validation of some neighbourhoods.

Random points become centres, and every candidate, a size k with a C and a kernel, is
cross-validated on the neighbourhood of each (Segata & Blanzieri, JMLR 11, 2010, Definition 5).
Two things make the few errors that this gives comparable:

- The same points judge every size: the inner part of the smallest neighbourhood.
- Every second of them is held out. A machine that lacks a fifth of the points around its centre
  prefers wider kernels and larger C than the machine that will be used; a tenth does less harm
  than half as many errors to count.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import binary_dilation
from scipy.special import stdtrit

from vicinal.local.internal import Grid, internal_errors
from vicinal.local.machines import Neighbourhoods, Training
from vicinal.neighbors.index import NeighbourIndex
from vicinal.problem import Problem

Search = Literal["race", "full"]

_ROUND = 4  # centres evaluated before a race looks at the results again
_FIRST = 8  # centres before it drops anything
_CONFIDENCE = 0.99
_MOST_CENTRES = 12  # of a race, as a multiple of n_centres
_MOST_WORK = 2  # of the race of the smallest size, as a multiple of what all candidates would cost

_MOST_DRAWS = 20_000


@dataclass(frozen=True)
class Results:
    """What a search found.

    Parameters
    ----------
    sizes : list of int
        The values of k that were tried.
    grid : Grid
    errors : array of shape (n_sizes, n_centres, n_kernels, n_C)
        Errors of every candidate at every centre; NaN where it was not tried.
    alive : bool array of shape (n_sizes, n_kernels, n_C)
        The candidates that were not dropped.
    winners : list of (int, int)
        The best candidate of each size, by kernel and C.
    best_size : int
        Position of the size whose winner is the best of all.
    """

    sizes: list[int]
    grid: Grid
    errors: NDArray[np.float64]
    alive: NDArray[np.bool_]
    winners: list[tuple[int, int]]
    best_size: int

    def n_tried(self) -> NDArray[np.intp]:
        """Return the number of centres at which each candidate was tried."""
        return (~np.isnan(self.errors)).sum(axis=1)

    def mean(self) -> NDArray[np.float64]:
        """Return the mean error of each candidate, as if all had been tried at the same centres.

        That of a size's winner is the mean error of the best candidate plus the mean of their
        differences where both were tried, and that of any other candidate is likewise relative to
        the winner of its size: easy centres are no merit.
        """
        best = self._of_winner(self.best_size)
        means = np.empty((len(self.sizes), *self.grid.shape))
        for size, errors in enumerate(self.errors):
            winner = self._of_winner(size)
            differences = errors - winner[:, None, None]
            n = (~np.isnan(differences)).sum(axis=0)
            mean_difference = np.nansum(differences, axis=0) / np.where(n > 0, n, np.nan)
            means[size] = np.nanmean(best) + np.nanmean(winner - best) + mean_difference
        return means

    def std(self) -> NDArray[np.float64]:
        """Return the standard deviation of each candidate's error where it was tried."""
        n = np.where(self.n_tried() > 0, self.n_tried(), np.nan)
        mean = np.nansum(self.errors, axis=1) / n
        return np.sqrt(np.nansum((self.errors - mean[:, None]) ** 2, axis=1) / n)

    def best_error(self) -> float:
        """Return the mean error of the best candidate."""
        return float(np.nanmean(self._of_winner(self.best_size)))

    def _of_winner(self, size: int) -> NDArray[np.float64]:
        return self.errors[(size, slice(None), *self.winners[size])]


def search_parameters(
    problem: Problem,
    index: NeighbourIndex,
    sizes: Sequence[int],
    grid: Grid,
    training: Training,
    *,
    n_centres: int,
    n_internal: int | None,
    search: Search,
    random_state: np.random.RandomState,
    reached: Callable[[float], bool],
) -> Results:
    """Compare sizes of neighbourhoods, values of C and kernels on some random centres.

    A size is tried after all smaller ones, unless one of them was worse than its predecessor; in a
    race, unless it was not better by a standard error. A race begins with those candidates that are
    left of the one before and their neighbours on the grid, and as larger machines cost more, it
    may compare fewer of them, and at fewer centres.

    `reached` hears the share of the work that is done and says whether to stop.
    """
    most = _most_centres(n_centres, search)
    centres = draw_centres(problem, index, sizes[0], most, random_state, training.n_threads)
    n_internal = max(1, sizes[0] // 2) if n_internal is None else n_internal
    n_rounds = n_rounds_of(n_centres, search)
    races: list[_Race] = []
    best = 0
    for number, k in enumerate(sizes):
        _, neighbourhoods = index.query(index.points[centres], k, n_threads=training.n_threads)
        race = _Race(problem, neighbourhoods, min(n_internal, k), grid, training)
        before = races[-1] if races else None
        races.append(race)
        affordable, work = len(centres), None
        if search == "race":
            affordable = min(len(centres), max(_FIRST, len(centres) * sizes[0] // k))
            work = _MOST_WORK * n_centres * race.alive.size * sizes[0] // k
            if before is not None:
                race.alive = binary_dilation(before.alive)  # its neighbours on the grid too
        stopped = behind = False
        while race.has_next(work) and not (stopped or behind):
            race.next_round()
            stopped = reached((number + race.n_rounds / n_rounds) / len(sizes))
            if search == "race" and race.n_done >= _FIRST:
                race.drop()
                behind = before is not None and race.is_certainly_behind(before)
        reached((number + 1) / len(sizes))
        if before is not None:
            n = race.n_done if stopped or behind else max(race.n_done, affordable)
            gains = race.gains_over(before, n)
            # Larger machines cost more: a race goes on only if it seems to be worth it.
            chance = gains.std(ddof=1) / np.sqrt(n) if search == "race" else 0.0
            if gains.mean() > 0:
                best = number
            if gains.mean() < chance:
                break
        if stopped:
            break
    reached(1.0)
    return Results(
        list(sizes[: len(races)]),
        grid,
        np.stack([race.errors for race in races]),
        np.stack([race.alive for race in races]),
        [race.winner for race in races],
        best,
    )


class _Race:
    """The candidates of one size, centre after centre."""

    def __init__(
        self,
        problem: Problem,
        neighbourhoods: Neighbourhoods,
        n_internal: int,
        grid: Grid,
        training: Training,
    ) -> None:
        step = 2 if n_internal >= 4 * grid.n_folds else 1
        held_out = np.arange(0, n_internal, step)
        others = np.setdiff1d(np.arange(neighbourhoods.shape[1]), held_out)
        self._neighbourhoods = neighbourhoods[:, np.concatenate([held_out, others])]
        self._n_held_out = len(held_out)
        self._problem, self._grid, self._training = problem, grid, training
        self.errors = np.full((len(neighbourhoods), *grid.shape), np.nan)
        self.alive = np.ones(grid.shape, dtype=bool)
        self.n_done = self.n_rounds = 0

    def has_next(self, most_work: int | None) -> bool:
        """Whether there are centres left, and, in a race, anything to find out and work left."""
        if self.n_done == len(self.errors):
            return False
        if most_work is None or self.n_done < min(_FIRST, len(self.errors)):
            return True
        next_work = _ROUND * int(self.alive.sum())
        done = int((~np.isnan(self.errors)).sum())
        return self.alive.sum() > 1 and done + next_work <= most_work

    def next_round(self) -> None:
        """Evaluate what is alive at some more centres."""
        end = min(self.n_done + _ROUND, len(self.errors))
        self._evaluate(self.n_done, end, self.alive)
        self.n_done = end
        self.n_rounds += 1

    def drop(self) -> None:
        """Drop the candidates that are worse than the best one by more than chance explains."""
        done = self.errors[: self.n_done]
        best = done[(slice(None), *self.winner)]
        self.alive &= ~_certainly_worse(done, best[:, None, None])

    @property
    def winner(self) -> tuple[int, int]:
        """The candidate of least error: of several that with the least C."""
        means = np.where(self.alive, self.errors[: self.n_done].mean(axis=0), np.inf).T
        c, p = np.unravel_index(means.argmin(), means.shape)
        return int(p), int(c)

    def winner_errors(self, n: int) -> NDArray[np.float64]:
        """Return the errors of the winner at the first n centres."""
        column = (slice(None), *self.winner)
        seen = int((~np.isnan(self.errors[column])).sum())
        if seen < n:
            alone = np.zeros_like(self.alive)
            alone[self.winner] = True
            self._evaluate(seen, n, alone)
        return self.errors[column][:n]

    def gains_over(self, other: _Race, n: int) -> NDArray[np.float64]:
        """Return by how much the winner beats that of another size at the first n centres."""
        return other.winner_errors(n) - self.winner_errors(n)

    def is_certainly_behind(self, other: _Race) -> bool:
        """Whether the winner is worse than that of another size by more than chance explains."""
        losses = -self.gains_over(other, min(self.n_done, other.n_done))
        return bool(_certainly_worse(losses[:, None], np.zeros(1))[0])

    def _evaluate(self, begin: int, end: int, wanted: NDArray[np.bool_]) -> None:
        (p, c), part = self._grid.part(wanted)
        rows = np.arange(begin, end)[:, None, None]
        self.errors[rows, p, c] = internal_errors(
            self._problem, self._neighbourhoods[begin:end], self._n_held_out, part, self._training
        )
        self.errors[begin:end, ~wanted] = np.nan


def _certainly_worse(errors: NDArray[np.float64], best: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return which columns exceed the best by more than the Student bound of their differences."""
    n = len(errors)
    differences = errors - best
    margin = stdtrit(n - 1, _CONFIDENCE) * differences.std(axis=0, ddof=1) / np.sqrt(n)
    return differences.mean(axis=0) > margin


def n_rounds_of(n_centres: int, search: Search) -> int:
    """Return the most rounds that a search takes for each size."""
    return -(-_most_centres(n_centres, search) // _ROUND)


def _most_centres(n_centres: int, search: Search) -> int:
    return _MOST_CENTRES * n_centres if search == "race" else n_centres


def draw_centres(
    problem: Problem,
    index: NeighbourIndex,
    k: int,
    n_centres: int,
    random_state: np.random.RandomState,
    n_threads: int,
) -> NDArray[np.int32]:
    """Draw random points until the k-neighbourhoods of enough of them hold two classes.

    Where the classes are so well separated that 20,000 draws do not yield enough, other points fill
    up: their neighbourhoods prefer no parameters.
    """
    order = random_state.permutation(problem.n_points)[:_MOST_DRAWS].astype(np.int32)
    mixed = order[:0]
    begin, size = 0, 2 * n_centres
    while begin < len(order) and len(mixed) < n_centres:
        drawn = order[begin : begin + size]
        _, neighbours = index.query(index.points[drawn], k, n_threads=n_threads)
        targets = problem.targets[neighbours]
        mixed = np.concatenate([mixed, drawn[targets.min(axis=1) < targets.max(axis=1)]])
        begin, size = begin + size, min(2 * size, 1024)
    if len(mixed) < n_centres:
        mixed = np.concatenate([mixed, order[~np.isin(order, mixed)]])
    return mixed[:n_centres]
