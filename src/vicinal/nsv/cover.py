"""Nearest support vectors over a cover of machines: those that are large enough stop early.

A query goes where FaLK-SVM's route sends it. A machine of many vectors has thresholds of its own,
gathered on points that the route sends to it; all others answer as ever, many in one call. A cover
without any large machine is asked as if nobody stood before it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vicinal.local.model import LocalModel
from vicinal.local.votes import Decisions, combine_pairs, winners
from vicinal.neighbors.index import make_index
from vicinal.nsv.costs import Costs
from vicinal.nsv.expansion import Expansion
from vicinal.nsv.model import Answers, NearestVectors
from vicinal.nsv.search import calibrate
from vicinal.nsv.settings import Settings
from vicinal.problem import Codes, Floats

CALL = 1e6
"""What it costs to ask one more machine in a call of its own, in multiply-adds; as measured."""

WORTH = 20 * CALL
"""A machine is calibrated if its share of the training points costs at least so much to answer."""

FEWEST = 2500
"""With fewer points that are routed to a machine, those nearest to its centre calibrate it too:
enough to tell of a change in a thousand."""

MOST_COEFFICIENTS = 1e5
"""Coefficients of a larger sum may cancel so far that single precision has too few digits."""


@dataclass(frozen=True)
class Expansions:
    """The machines of a cover, as what may be evaluated early.

    Parameters
    ----------
    model : LocalModel
    """

    model: LocalModel

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return self.model.problem.n_classes

    @property
    def n_features(self) -> int:
        """Number of features."""
        return int(self.model.problem.points.shape[1])

    @property
    def n_vectors(self) -> NDArray[np.int64]:
        """Number of vectors of each machine."""
        return self.model.machines.n_support

    def queries(self, X: NDArray[Any]) -> Floats:
        """Return queries as the engine takes them."""
        return self.model.problem.frame.apply(X)

    def alone(self, number: int) -> Expansion | None:
        """Return one of the machines by itself.

        None if it answers alike for all queries, if its vectors speak against their own class, or
        if single precision has too few digits for it.
        """
        model, machines = self.model, self.model.machines
        of_vectors = slice(*machines.sv_ptr[number : number + 2])
        of_classes = slice(*machines.class_ptr[number : number + 2])
        coef = machines.coef[slice(*machines.coef_ptr[number : number + 2])]
        class_sv = machines.class_sv[of_classes]
        if len(class_sv) < 2 or not class_sv.all():
            return None
        # Positive for the later class of a pair: for the owner of a vector against an earlier one.
        owner = np.repeat(np.arange(len(class_sv)), class_sv)
        is_later = np.arange(len(class_sv) - 1)[:, None] < owner
        support = np.where(is_later, 1, -1).astype(np.float32) * coef.reshape(is_later.shape)
        if (support < 0).any() or support[0].sum() > MOST_COEFFICIENTS:
            return None
        kind, _, coef0, degree, _ = model.kernel
        return Expansion(
            vectors=model.problem.points[machines.sv[of_vectors]],
            class_sv=class_sv,
            support=support,
            bias=machines.bias[slice(*machines.bias_ptr[number : number + 2])],
            kernel=(kind, float(machines.gamma[number]), coef0, degree),
            frame=model.problem.frame,
            lift=None,
        )

    def promising(self) -> NDArray[np.intp]:
        """Return the machines whose share of the training points costs much to answer."""
        model = self.model
        owned = np.bincount(model.cover.owners, minlength=len(model.machines))
        exact = self.n_vectors * (self.n_features + Costs.VALUE)
        return np.flatnonzero(owned * exact >= WORTH)


@dataclass(frozen=True)
class EarlyCover:
    """A cover of machines, some of which stop early.

    Parameters
    ----------
    expansion : Expansions
    numbers : int32 array of shape (n_early,)
        Which machines of the cover stop early, in ascending order.
    early : tuple of NearestVectors
        Those machines.
    """

    expansion: Expansions
    numbers: Codes
    early: tuple[NearestVectors, ...]

    def answer(self, queries: Floats, *, n_threads: int) -> Answers:
        """Answer queries that are in the frame of the cover's problem."""
        model = self.expansion.model
        routes = model.route(queries, n_threads=n_threads)
        touched = model.machines.n_support[routes].astype(np.int32)
        late = ~np.isin(routes, self.numbers)
        if late.all():
            decisions = self._decide(queries, routes, n_threads)
            return Answers(decisions, winners(decisions).astype(np.int32), touched)
        n_classes = self.expansion.n_classes
        decisions = np.empty(len(queries) if n_classes == 2 else (len(queries), n_classes))
        decisions[late] = self._decide(queries[late], routes[late], n_threads)
        for at, rows in _groups(routes, self.numbers):
            answers = self.early[at].answer(queries[rows], n_threads=n_threads)
            decisions[rows] = self._among_all(answers.decisions, self.numbers[at])
            touched[rows] = answers.n_touched
        return Answers(decisions, winners(decisions).astype(np.int32), touched)

    def answer_exactly(self, queries: Floats, *, n_threads: int) -> Answers:
        """Answer as the cover does."""
        return EarlyCover(self.expansion, self.numbers[:0], ()).answer(queries, n_threads=n_threads)

    def _decide(self, queries: Floats, routes: Codes, n_threads: int) -> Decisions:
        model = self.expansion.model
        return model.machines.evaluate(
            model.problem, queries, routes, model.kernel, n_threads=n_threads
        )

    def _among_all(self, decisions: Decisions, number: int) -> Decisions:
        """Turn decisions among the classes that a machine knows into decisions among all."""
        n_classes = self.expansion.n_classes
        if n_classes == 2:
            return decisions
        if decisions.ndim == 1:
            decisions = combine_pairs(decisions[:, None], 2)
        machines = self.expansion.model.machines
        known = machines.classes[slice(*machines.class_ptr[number : number + 2])]
        among_all = np.full((len(decisions), n_classes), -1.0)
        among_all[:, known] = decisions
        return among_all


def calibrate_cover(
    expansions: Expansions,
    queries: Floats,
    settings: Settings,
    *,
    random_state: np.random.RandomState,
    n_threads: int,
) -> tuple[EarlyCover, dict[str, Any]]:
    """Gather thresholds for each machine of a cover that is large enough to pay.

    Returns
    -------
    model : EarlyCover
    report : dict
        As of one machine, as far as it tells of several: means over all queries, of which those of
        the other machines are answered exactly.
    """
    model = expansions.model
    numbers = expansions.promising()
    kept: list[tuple[int, NearestVectors]] = []
    answered = changed = 0.0
    if len(numbers):
        routes = model.route(queries, n_threads=n_threads)
        for number, rows, n_routed in _evidence(model, queries, routes, numbers, n_threads):
            expansion = expansions.alone(number)
            if expansion is None:
                continue
            early, found = calibrate(
                expansion, queries[rows], settings, random_state=random_state, n_threads=n_threads
            )
            if n_routed * Costs(expansion).exact * (1.0 - found["cost"]) > CALL:
                kept.append((number, early))
                answered += n_routed * (found["answered_by_filter"] + found["answered_by_sketch"])
                changed += n_routed * found["disagreement"]
    report = {
        "n_queries": len(queries),
        "n_early_machines": len(kept),
        "answered_by_filter": answered / len(queries),
        "disagreement": changed / len(queries),
    }
    early_numbers = np.array([number for number, _ in kept], dtype=np.int32)
    return EarlyCover(expansions, early_numbers, tuple(early for _, early in kept)), report


def _evidence(
    model: LocalModel,
    queries: Floats,
    routes: Codes,
    numbers: NDArray[np.intp],
    n_threads: int,
) -> Iterator[tuple[int, NDArray[np.intp], int]]:
    """Yield machines, the queries that calibrate each, and how many are routed to it."""
    index = make_index(queries, model.kernel.metric, algorithm="scan", n_threads=n_threads)
    routed = dict(_groups(routes, numbers))
    for at, number in enumerate(numbers):
        rows = routed.get(at, np.zeros(0, dtype=np.intp))
        n_routed = len(rows)
        if n_routed < FEWEST:
            centre = model.problem.points[model.cover.centres[number]][None]
            _, near = index.query(centre, min(FEWEST, len(queries)), n_threads=n_threads)
            rows = np.union1d(rows, near[0])
        yield int(number), rows, n_routed


def _groups(routes: Codes, numbers: NDArray[Any]) -> Iterator[tuple[int, NDArray[np.intp]]]:
    """Yield places in `numbers` and the queries that are routed there, where there are any."""
    order = np.argsort(routes, kind="stable")
    ends = np.searchsorted(routes[order], numbers, side="right")
    starts = np.searchsorted(routes[order], numbers, side="left")
    for at in np.flatnonzero(ends > starts):
        yield int(at), order[starts[at] : ends[at]]
