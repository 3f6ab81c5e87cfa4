"""The fit that all classifiers with a cover share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.callback import CallbackSupportMixin
from sklearn.utils import check_random_state

from vicinal.kernels import KernelSpec
from vicinal.local.base import LocalClassifier
from vicinal.local.cover import Order
from vicinal.local.machines import Machines, Neighbourhoods, Training
from vicinal.local.model import Indexes, LocalModel, Recipe, Trainer, fit_local_model
from vicinal.local.progress import Progress, Report
from vicinal.local.route import Routing
from vicinal.problem import Problem, as_factors

N_STEPS = 100
"""Steps of progress that callbacks hear of while machines are trained."""


FITTED = (
    "classes_",
    "models_",
    "centres_",
    "owners_",
    "n_machines_",
    "n_unanimous_",
    "n_support_",
    "fit_report_",
)
"""The attributes that tell of the machines."""


def with_one_C(C: float) -> Trainer:
    """Return the trainer that gives all machines the same C."""

    def train(problem: Problem, neighbourhoods: Neighbourhoods, training: Training) -> Machines:
        every = np.full(len(neighbourhoods), as_factors(C))
        return Machines.train(problem, neighbourhoods, every, training)

    return train


class CoveredClassifier(CallbackSupportMixin, LocalClassifier):
    """Base of the classifiers that train a cover of machines."""

    # Parameters of some subclasses, and constants of others.
    centres: Order
    routing: Routing

    models_: Sequence[LocalModel]

    def _recipe(self, problem: Problem, kernel: KernelSpec, k: int, n_assigned: int) -> Recipe:
        k = min(k, problem.n_points)
        return Recipe(
            n_neighbors=k,
            n_assigned=min(n_assigned, k),
            centres=self.centres,
            routing=self.routing,
            algorithm=self.algorithm,
            training=Training(kernel, self.tol, self.cache_size, self._n_threads),
        )

    def _cover_with_machines(
        self,
        problem: Problem,
        train: Trainer,
        kernel: KernelSpec,
        *,
        k: int,
        n_assigned: int,
        report: Report,
        progress: Progress,
        indexes: Indexes | None = None,
    ) -> None:
        """Fit a model to each of the problems and set the fitted attributes."""
        problems = self._problems(problem)
        random_state = check_random_state(self.random_state)
        models: list[LocalModel] = []

        def on_batch(share: float, model_so_far: Callable[[], LocalModel]) -> bool:
            share = (len(models) + share) / len(problems)
            if len(models) + 1 < len(problems):
                return progress.reach(share)  # without the other problems nothing can vote
            return progress.reach(
                share, lambda: _fitted_attributes(problem, [*models, model_so_far()], report)
            )

        for part in problems:
            model = fit_local_model(
                part,
                self._recipe(part, kernel, k, n_assigned),
                train,
                indexes=indexes if part is problem else None,
                random_state=random_state,
                report=report,
                on_batch=on_batch,
            )
            models.append(model)
        self.__dict__.update(_fitted_attributes(problem, models, report))
        progress.reach(1.0)


def _fitted_attributes(
    problem: Problem, models: list[LocalModel], report: Report
) -> dict[str, Any]:
    n_support = np.concatenate([model.machines.n_support for model in models])
    values = (
        problem.classes,
        models,
        np.concatenate([m.problem.rows[m.cover.centres] for m in models]),
        _owners(problem, models),
        len(n_support),
        sum(int(model.machines.unanimous.sum()) for model in models),
        n_support,
        report,
    )
    return dict(zip(FITTED, values, strict=True))


def _owners(problem: Problem, models: list[LocalModel]) -> NDArray[np.int32]:
    owners = np.full((len(models), problem.n_rows), -1, dtype=np.int32)
    first = 0
    for row, model in zip(owners, models, strict=True):
        row[model.problem.rows] = first + model.cover.owners
        first += len(model.machines)
    return owners[0] if len(models) == 1 else owners
