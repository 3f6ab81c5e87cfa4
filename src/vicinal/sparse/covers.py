"""Covers whose machines have a few vectors of their own.

Every machine is taught to say what it said, by fewer vectors, on the training points around its
centre (`distillation.py`). It is tried in several sizes, and one number for the whole cover decides
which size each machine gets: the price of a vector, in units of misfit. The size of the least sum
of misfit and price is taken; whole, a machine has no misfit and all of its support vectors to pay.
The price is the highest one at which the cover loses no more accuracy than it may on points that no
small machine has learned from. Machine by machine there are far too few such points to tell.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from vicinal.local.machines import Machines
from vicinal.local.model import LocalModel
from vicinal.local.votes import winners
from vicinal.problem import Codes, Floats
from vicinal.sparse.lessons import Trial, small_machines

_LEFT_OUT = 5
"""Without other points to measure by, one training point of so many is left out of the lessons."""

_GOOD = 0.005
"""With a misfit below this, a machine is not tried in larger sizes."""


@dataclass(frozen=True)
class Outcome:
    """A cover of smaller machines.

    Parameters
    ----------
    model : LocalModel
    loss : float
        By how much accuracy fell, as measured.
    n_whole : int
        Machines that have more vectors than they were to have, because nothing smaller serves.
    """

    model: LocalModel
    loss: float
    n_whole: int


def compress_cover(
    model: LocalModel,
    sizes: list[int],
    max_loss: float,
    measured: tuple[Floats, Codes] | None,
    *,
    random_state: np.random.RandomState,
    n_threads: int,
) -> Outcome:
    """Give every machine of a cover as few vectors as the loss allows.

    Parameters
    ----------
    model : LocalModel
    sizes : list of int
        Numbers of vectors to try, ascending.
    max_loss : float
        Share of answers that may turn from right to wrong, net; with a standard error's room.
    measured : tuple of arrays, default=None
        Queries in the frame and their classes, to measure the loss by. None leaves some training
        points out of the lessons for that.
    random_state : RandomState
        For the places where vectors start.
    n_threads : int
    """
    problem = model.problem
    learned = np.ones(problem.n_points, dtype=bool)
    if measured is None:
        learned[::_LEFT_OUT] = False
        measured = problem.points[~learned], problem.targets[~learned]
    trials: list[Trial] = []
    wanted = np.ones(len(model.machines), dtype=bool)
    for size in sizes:
        seed = random_state.randint(2**31)
        trials.append(small_machines(model, size, wanted, learned, seed, n_threads))
        wanted[trials[-1].numbers[trials[-1].misfit <= _GOOD]] = False
    choice, loss = _choose(model, trials, max_loss, *measured, n_threads=n_threads)
    tried = np.unique(np.concatenate([trial.numbers for trial in trials]))
    n_whole = int((choice[tried] == len(trials)).sum())
    return Outcome(_assembled(model, trials, choice), loss, n_whole)


def _choose(
    model: LocalModel,
    trials: list[Trial],
    max_loss: float,
    queries: Floats,
    targets: Codes,
    *,
    n_threads: int,
) -> tuple[NDArray[np.intp], float]:
    """Return the trial that each machine is taken from, or their number for none, and the loss."""
    n_machines = len(model.machines)
    routes = model.route(queries, n_threads=n_threads)
    problem, kernel = model.problem, model.kernel
    decided = model.machines.evaluate(problem, queries, routes, kernel, n_threads=n_threads)
    right = np.tile((winners(decided) == targets)[:, None], len(trials) + 1)
    misfit = np.full((n_machines, len(trials) + 1), np.inf)
    misfit[:, -1] = 0.0
    sizes = np.repeat(model.machines.n_support[:, None], len(trials) + 1, axis=1)
    for at, trial in enumerate(trials):
        misfit[trial.numbers, at] = trial.misfit
        sizes[trial.numbers, at] = trial.machines.n_support
        place = np.full(n_machines, -1, dtype=np.int32)
        place[trial.numbers] = np.arange(len(trial.numbers))
        asked = np.flatnonzero(place[routes] >= 0)
        if len(asked):
            with_vectors = replace(problem, points=trial.vectors)
            decided = trial.machines.evaluate(
                with_vectors, queries[asked], place[routes[asked]], kernel, n_threads=n_threads
            )
            right[asked, at] = winners(decided) == targets[asked]
    # With nothing to measure by, all stay whole.
    for price in np.geomspace(1.0, 1e-7, 141) if len(targets) else ():
        choice = (misfit + price * sizes).argmin(axis=1)
        now = right[np.arange(len(routes)), choice[routes]]
        lost = right[:, -1].astype(np.float64) - now
        room = float(lost.std()) / np.sqrt(max(1, len(lost)))
        if float(lost.mean()) + room <= max_loss:
            return choice, float(lost.mean())
    return np.full(n_machines, len(trials), dtype=np.intp), 0.0


def _assembled(model: LocalModel, trials: list[Trial], choice: NDArray[np.intp]) -> LocalModel:
    """Return the cover with the machines chosen, its points being the centres and all vectors."""
    problem, cover = model.problem, model.cover
    whole = np.flatnonzero(choice == len(trials))
    kept = model.machines.take(whole)
    used, place = np.unique(kept.sv, return_inverse=True)
    n_centres = len(cover.centres)
    old = np.concatenate([cover.centres, used])
    parts = [replace(kept, sv=(place + n_centres).astype(np.int32))]
    points, targets = [problem.points[old]], [problem.targets[old]]
    owners = [np.arange(n_centres, dtype=np.int32), cover.owners[used]]
    numbers, n_points = [whole], len(old)
    for at, trial in enumerate(trials):
        rows = np.flatnonzero(choice[trial.numbers] == at)
        if not len(rows):
            continue
        chosen = trial.machines.take(rows)
        parts.append(replace(chosen, sv=n_points + np.arange(len(chosen.sv), dtype=np.int32)))
        points.append(trial.vectors[chosen.sv])
        targets.append(trial.targets[chosen.sv])
        owners.append(np.repeat(trial.numbers[rows], chosen.n_support).astype(np.int32))
        numbers.append(trial.numbers[rows])
        n_points += len(chosen.sv)
    order = np.argsort(np.concatenate(numbers), kind="stable")
    owner_of = np.concatenate(owners)
    # Vectors that are no training points come, if from anywhere, from the centre's neighbourhood.
    rows_of = problem.rows[np.concatenate([old, cover.centres[owner_of[len(old) :]]])]
    made_of = replace(
        problem,
        points=np.concatenate(points),
        targets=np.concatenate(targets).astype(np.int32),
        weights=np.ones(n_points, dtype=np.float32),
        rows=rows_of,
    )
    centres = np.arange(n_centres, dtype=np.int32)
    return replace(
        model,
        problem=made_of,
        cover=replace(cover, centres=centres, owners=owner_of),
        machines=Machines.concatenate(parts).take(order),
    )
