"""What classifier and regressor share: parameters, and the course of a fit."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.model_selection import train_test_split
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted, validate_data

from vicinal.engine import LocalDescent, LocalForm, LocalShape, SoftForest
from vicinal.ldkl.blend import Blend, SoftBlend, start_blend
from vicinal.ldkl.forest import Forest, LDKLModel
from vicinal.ldkl.training import History, Samples, Schedule, Soft, train
from vicinal.problem import FLOATS, Codes, Doubles, Floats, Frame

Score = Callable[[Floats, Samples], float]
"""From scores on held out samples, and these samples, to how good they are."""

_CONSTANTS = (0.25, 1.0, 4.0)
"""Among which constant="auto" chooses, on at most so many samples."""
_TRIAL = 20_000

_LARGEST_BATCH = 2048
_FEWEST_EPOCHS = 40
_FEWEST_STEPS = 3000
"""Small data are passed more often, in smaller batches."""

_ANNEALED = 2000
"""Steps after which partial_fit has reached the final sharpness."""

_positive = Interval(Real, 0, None, closed="neither")
_not_negative = Interval(Real, 0, None, closed="left")
_count = Interval(Integral, 1, None, closed="left")


class LocalDeepMachine(BaseEstimator):
    """Base of the estimators of local deep kernel learning."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "depth": [Interval(Integral, 1, 16, closed="both")],
        "n_trees": [_count],
        "global_features": [StrOptions({"linear", "quadratic"})],
        "compositional": ["boolean"],
        "sigma": [_positive],
        "constant": [StrOptions({"auto"}), _positive],
        "alpha_weights": [_not_negative],
        "alpha_splits": [_not_negative],
        "alpha_gates": [_not_negative],
        "sharpness": [tuple],
        "learning_rate": [_positive],
        "batch_size": [StrOptions({"auto"}), _count],
        "max_iter": [StrOptions({"auto"}), _count],
        "n_init": [_count],
        "early_stopping": ["boolean"],
        "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
        "n_iter_no_change": [_count],
        "warm_start": ["boolean"],
        "random_state": ["random_state"],
        "n_jobs": [Integral, None],
    }

    model_: LDKLModel
    _soft: Soft | None

    @property
    def _n_threads(self) -> int:
        return int(effective_n_jobs(self.n_jobs))

    def _descent(self) -> LocalDescent:
        return LocalDescent(
            getattr(self, "loss", "squared_error"),
            decay_splits=self.alpha_splits,
            decay_gates=self.alpha_gates,
            decay_weights=self.alpha_weights,
        )

    def _schedule(self, n_samples: int, sharpness: tuple[float, float]) -> Schedule:
        batch = self.batch_size
        if batch == "auto":
            batch = int(np.clip(n_samples // 16, 16, _LARGEST_BATCH))
        n_steps = -(-n_samples // batch)
        n_epochs = self.max_iter
        if n_epochs == "auto":
            n_epochs = max(_FEWEST_EPOCHS, -(-_FEWEST_STEPS // n_steps))
        return Schedule(n_epochs, batch, self.learning_rate, sharpness)

    def _sharpness(self) -> tuple[float, float]:
        valid = len(self.sharpness) == 2 and all(isinstance(s, Real) for s in self.sharpness)
        if not valid or not 0 < self.sharpness[0] <= self.sharpness[1] < np.inf:
            raise ValueError(
                "sharpness must be two positive numbers, that of the first step and one at least"
                f" as large for the last, got {self.sharpness!r}."
            )
        return self.sharpness

    def _start(
        self, points: Floats, n_outputs: int, random_state: np.random.RandomState, constant: float
    ) -> Soft:
        """Return what has learned nothing yet."""
        form = LocalForm(
            float(self.sigma),
            float(constant),
            self.global_features == "quadratic",
            bool(self.compositional),
        )
        if (embedding := getattr(self, "embedding", "tree")) != "tree":
            n_machines = 2**self.depth - 1
            return start_blend(embedding, n_machines, n_outputs, points, form, random_state)
        shape = LocalShape(self.n_trees, self.depth, n_outputs, points.shape[1])
        forest = SoftForest(shape, form)
        size = 1 / np.sqrt(forest.n_local)
        forest.splits[...] = random_state.normal(0, size, forest.splits.shape)
        forest.gates[...] = random_state.normal(0, size, forest.gates.shape)
        forest.weights[...] = random_state.normal(0, 0.1 * size, forest.weights.shape)
        return forest

    def _learn(self, samples: Samples, n_outputs: int, frame: Frame, score: Score) -> None:
        """Train and set the fitted attributes."""
        random_state = check_random_state(self.random_state)
        sharpness = self._sharpness()
        on_held_out = None
        if self.early_stopping:
            samples, held_out = _split(samples, self.validation_fraction, random_state)
            on_held_out = partial(self._score_on, held_out, score)
        previous = getattr(self, "_soft", None)
        if self.warm_start and previous is not None:
            self._check_same(previous, samples.points.shape[1], n_outputs)
            # What is sharp stays sharp: softened again, it would be learned anew.
            schedule = self._schedule(len(samples.points), (sharpness[1], sharpness[1]))
            soft = previous
            history = self._train(soft, samples, schedule, random_state, on_held_out)
        else:
            constant = self.constant
            if constant == "auto":
                constant = self._choose_constant(samples, n_outputs, score, random_state)
            schedule = self._schedule(len(samples.points), sharpness)
            found = []
            for _ in range(self.n_init):
                soft = self._start(samples.points, n_outputs, random_state, constant)
                history = self._train(soft, samples, schedule, random_state, on_held_out)
                found.append((soft, history))
            soft, history = min(found, key=lambda of: of[1].badness)
        self._set_model(soft, frame)
        self._soft = soft if self.warm_start else None
        self.n_iter_ = len(history.losses)
        self.loss_curve_ = history.losses
        self.validation_scores_ = history.scores if self.early_stopping else None

    def _train(
        self,
        soft: Soft,
        samples: Samples,
        schedule: Schedule,
        random_state: np.random.RandomState,
        score: Callable[[Soft], float] | None = None,
    ) -> History:
        return train(
            soft,
            samples,
            self._descent(),
            schedule,
            random_state,
            score=score,
            patience=self.n_iter_no_change,
            n_threads=self._n_threads,
        )

    def _score_on(self, held_out: Samples, score: Score, soft: Soft) -> float:
        scores = _harden(soft).score(held_out.points, n_threads=self._n_threads)
        return score(scores, held_out)

    def _choose_constant(
        self,
        samples: Samples,
        n_outputs: int,
        score: Score,
        random_state: np.random.RandomState,
    ) -> float:
        """Return the constant of the best of some short runs."""
        rows = random_state.permutation(len(samples.points))[:_TRIAL]
        few = Samples(*(array[rows] for array in samples))
        few, held_out = _split(few, self.validation_fraction, random_state)
        schedule = self._schedule(len(few.points), self._sharpness())
        found = []
        for constant in _CONSTANTS:
            again = np.random.RandomState(0)  # runs differ in the constant alone
            soft = self._start(few.points, n_outputs, again, constant)
            self._train(soft, few, schedule, again)
            found.append(self._score_on(held_out, score, soft))
        return _CONSTANTS[int(np.argmax(found))]

    def _learn_part(self, samples: Samples, n_outputs: int, frame: Frame, first: bool) -> None:
        """Pass some samples once, in the order given."""
        if first:
            random_state = check_random_state(self.random_state)
            constant = 1.0 if self.constant == "auto" else self.constant
            self._soft = self._start(samples.points, n_outputs, random_state, constant)
            self.n_iter_ = 0
            self.loss_curve_ = []
        soft = self._soft
        assert soft is not None  # made by this call or an earlier one
        low, high = self._sharpness()
        batch = self._schedule(len(samples.points), (low, high)).batch
        reached = [
            low * (high / low) ** min(1.0, (soft.n_steps + steps) / _ANNEALED)
            for steps in (0, -(-len(samples.points) // batch))
        ]
        # Half the rate all the time is about what the cosine takes on average.
        schedule = Schedule(1, batch, self.learning_rate / 2, (reached[0], reached[1]))
        history = self._train(soft, samples, schedule, np.random.RandomState(soft.n_steps))
        self._set_model(soft, frame)
        self.n_iter_ += 1
        self.loss_curve_ += history.losses

    def _set_model(self, soft: Soft, frame: Frame) -> None:
        self.model_ = LDKLModel(frame, _harden(soft))
        self.cost_ = self.model_.forest.cost

    def _check_same(self, soft: Soft, n_features: int, n_outputs: int) -> None:
        if isinstance(soft, SoftBlend):
            raise ValueError("warm_start goes on with trees only: use embedding='tree'.")
        now = LocalShape(self.n_trees, self.depth, n_outputs, n_features)
        if now != soft.shape:
            raise ValueError(
                f"warm_start goes on with the trees of the last fit, {soft.shape}, but this fit"
                f" asks for {now}: keep these parameters and the classes, or set"
                " warm_start=False."
            )

    def prune(self, tolerance: float = 0.0) -> Self:
        """Remove the subtrees whose gates all vanish.

        Parameters
        ----------
        tolerance : float, default=0.0
            A gate vanishes if none of its numbers exceeds this in size.

        Returns
        -------
        self : object
        """
        check_is_fitted(self, "model_")
        if not isinstance(self.model_.forest, Forest):
            raise ValueError("Only trees can be pruned: use embedding='tree'.")
        self.model_ = LDKLModel(self.model_.frame, self.model_.forest.prune(tolerance))
        self.cost_ = self.model_.forest.cost
        self._soft = None  # training needs complete trees
        return self

    def _scores(self, X: ArrayLike) -> Floats:
        check_is_fitted(self, "model_")
        data = validate_data(self, X, dtype=FLOATS, reset=False)
        return self.model_.score(data, n_threads=self._n_threads)


def _harden(soft: Soft) -> Forest | Blend:
    return soft.harden() if isinstance(soft, SoftBlend) else Forest.of(soft)


def depth_for(cost: float, n_trees: int, n_outputs: int, *, embedding: str = "tree") -> int:
    """Return the deepest trees that cost at most so many dot products together."""
    depth = int((cost / n_trees + 1) // (2 + n_outputs))
    if embedding != "tree":  # all of 2**depth - 1 machines are met
        depth = int(np.log2(cost / (1 + n_outputs) + 1))
    if depth < 1:
        raise ValueError(
            f"cost={cost} is too little: a tree of one node costs {1 + n_outputs} dot products,"
            f" and there are n_trees={n_trees}."
        )
    return min(depth, 16)


def as_samples(points: Floats, targets: Codes | Doubles, weights: Floats | Doubles) -> Samples:
    """Return samples as the core takes them."""
    mean = weights.mean(dtype=np.float64)
    return Samples(points, targets.astype(np.float32), (weights / mean).astype(np.float32))


def _split(
    samples: Samples, share: float, random_state: np.random.RandomState
) -> tuple[Samples, Samples]:
    try:
        rows, held_out = train_test_split(
            np.arange(len(samples.points)), test_size=share, random_state=random_state
        )
    except ValueError as error:
        raise ValueError(
            f"validation_fraction={share} of {len(samples.points)} samples leaves nothing to train"
            " on or nothing to validate on."
        ) from error
    return Samples(*(a[rows] for a in samples)), Samples(*(a[held_out] for a in samples))
