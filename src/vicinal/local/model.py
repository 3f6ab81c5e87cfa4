"""A cover of machines with a route to them: what a fit makes and what predictions need."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from vicinal import engine
from vicinal.kernels import KernelSpec, Metric
from vicinal.local.cover import Cover, Covering, Order, candidates, twins
from vicinal.local.machines import Machines, Neighbourhoods, Training
from vicinal.local.progress import Report, count, timed
from vicinal.local.route import Route, Routing
from vicinal.local.votes import Decisions
from vicinal.neighbors.index import Algorithm, NeighbourIndex, fastest, make_index
from vicinal.problem import Floats, Problem

Trainer = Callable[[Problem, Neighbourhoods, Training], Machines]
OnBatch = Callable[[float, Callable[[], "LocalModel"]], bool]
"""Hears the share of points covered and how to make a model that stops here; says whether to."""

_MACHINES_PER_THREAD = 128
"""Machines trained at a time: enough that no core idles, few enough to report progress."""


@dataclass(frozen=True)
class Recipe:
    """How to cover the points of a problem with machines."""

    n_neighbors: int
    n_assigned: int
    centres: Order
    routing: Routing
    algorithm: Algorithm
    training: Training

    @property
    def metric(self) -> Metric:
        """The distance between points."""
        return self.training.kernel.metric

    @property
    def n_threads(self) -> int:
        """Threads of every step."""
        return self.training.n_threads


@dataclass(frozen=True)
class Indexes:
    """A cover tree for its levels, and what answers queries for k neighbours and for one."""

    tree: engine.NeighbourIndex
    neighbours: NeighbourIndex
    nearest: NeighbourIndex

    @classmethod
    def build(cls, problem: Problem, recipe: Recipe) -> Indexes:
        """Index the points of a problem."""
        points, metric, n_threads = problem.points, recipe.metric, recipe.n_threads
        tree = engine.NeighbourIndex(points, metric=metric, n_threads=n_threads)
        if recipe.algorithm == "tree":
            return cls(tree, tree, tree)
        if recipe.algorithm == "auto":
            neighbours = fastest(tree, recipe.n_neighbors, n_threads=n_threads)
            return cls(tree, neighbours, fastest(tree, 1, n_threads=n_threads))
        index = make_index(points, metric, algorithm=recipe.algorithm, n_threads=n_threads)
        return cls(tree, index, index)


@dataclass(frozen=True)
class LocalModel:
    """The machines of one problem and the way to them."""

    problem: Problem
    kernel: KernelSpec
    cover: Cover
    machines: Machines
    route: Route

    @property
    def bytes_per_query(self) -> int:
        """Memory that a query takes while it is answered: a route and decisions."""
        return 16 + 8 * self.problem.n_classes

    def decide(self, queries: Floats, *, n_threads: int) -> Decisions:
        """Return the decision for each query, in its problem's frame."""
        routes = self.route(queries, n_threads=n_threads)
        return self.machines.evaluate(
            self.problem, queries, routes, self.kernel, n_threads=n_threads
        )


def fit_local_model(
    problem: Problem,
    recipe: Recipe,
    train: Trainer,
    *,
    indexes: Indexes | None = None,
    random_state: np.random.RandomState,
    report: Report,
    on_batch: OnBatch,
) -> LocalModel:
    """Cover the points with machines: index, cover, training, route.

    Parameters
    ----------
    problem : Problem
    recipe : Recipe
    train : callable
        From a problem, neighbourhoods in it and settings to machines.
    indexes : Indexes, default=None
        Of the problem's points, if there are any yet.
    random_state : RandomState
        For centres in random order.
    report : dict
        Takes seconds and counts.
    on_batch : callable
        Called after every batch of machines.
    """
    if indexes is None:
        with timed(report, "index"):
            indexes = Indexes.build(problem, recipe)
        report["index"]["algorithm"] = indexes.neighbours.structure
        count(report, "index", points=problem.n_points)
    covering = Covering(
        indexes.neighbours,
        candidates(indexes.tree.levels, recipe.centres, random_state),
        twins(indexes.tree),
        n_neighbors=recipe.n_neighbors,
        n_assigned=recipe.n_assigned,
        ownership="first" if recipe.routing == "first" else "rank",
        n_threads=recipe.n_threads,
    )
    parts: list[Machines] = []

    def model_so_far() -> LocalModel:
        cover = covering.cover()
        if recipe.routing == "centre":
            route = Route.to_nearest_centre(
                problem.points,
                cover,
                recipe.metric,
                algorithm=recipe.algorithm,
                n_threads=recipe.n_threads,
            )
        else:
            route = Route.to_owner(indexes.nearest, cover)
        return LocalModel(
            problem, recipe.training.kernel, cover, Machines.concatenate(parts), route
        )

    stopped = False
    batches = _gathered(covering.batches(), _MACHINES_PER_THREAD * recipe.n_threads)
    while not stopped:
        with timed(report, "cover"):
            batch = next(batches, None)
        if batch is None:
            break
        with timed(report, "training"):
            parts.append(train(problem, batch, recipe.training))
        stopped = on_batch(covering.share_covered, model_so_far)
    with timed(report, "cover"):
        model = model_so_far()
    report["cover"]["stopped_early"] = stopped
    count(report, "cover", centres=covering.n_centres, searches=covering.n_searches)
    count(
        report,
        "training",
        machines=len(model.machines),
        unanimous=int(model.machines.unanimous.sum()),
        support_vectors=len(model.machines.sv),
        iterations=int(model.machines.n_iter.sum()),
    )
    return model


def _gathered(batches: Iterator[Neighbourhoods], count: int) -> Iterator[Neighbourhoods]:
    """Join batches until each has `count` rows or the last has come."""
    waiting: list[Neighbourhoods] = []
    for batch in batches:
        waiting.append(batch)
        if sum(map(len, waiting)) >= count:
            yield np.concatenate(waiting)
            waiting = []
    if waiting:
        yield np.concatenate(waiting)
