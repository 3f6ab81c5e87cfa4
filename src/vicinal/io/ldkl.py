"""Local deep kernel learning in model files."""

from __future__ import annotations

import numpy as np

from vicinal.engine import LocalForm
from vicinal.io.codec import Kind
from vicinal.io.early import is_finite
from vicinal.io.records import estimator, record, require
from vicinal.ldkl import LDKLClassifier, LDKLModel, LDKLRegressor
from vicinal.ldkl.base import LocalDeepMachine
from vicinal.ldkl.blend import Blend
from vicinal.ldkl.forest import Forest


def kinds() -> list[Kind]:
    """Return the kinds of everything here."""
    return [
        record(LocalForm, _check_form),
        record(Forest, _check_forest),
        record(Blend, _check_blend),
        record(LDKLModel, _check_model),
        estimator(LDKLClassifier, _check_classifier),
        estimator(LDKLRegressor, _check_regressor),
    ]


def _check_form(form: LocalForm) -> None:
    sound = 0 < form.sigma < np.inf and 0 < form.constant < np.inf
    require(sound, "a forest has no gates")


def _check_forest(forest: Forest) -> None:
    _check_machines(forest)
    n_inner, n_nodes = forest.n_inner, forest.n_nodes
    children, roots = forest.children, forest.roots
    require(
        forest.splits.ndim == 2
        and forest.splits.shape[1] == forest.gates.shape[1]
        and n_inner < n_nodes
        and children.shape == (n_inner, 2)
        and roots.ndim == 1
        and len(roots) > 0,
        "the arrays of a forest do not fit together",
    )
    # Children come after their parents, so that every walk ends.
    after = (children == -1) | (children > np.arange(n_inner)[:, None])
    inside = (children < n_nodes).all() and ((roots >= 0) & (roots < n_nodes)).all()
    require(after.all() and inside, "the nodes of a forest do not hang together")
    require(is_finite(forest.splits), "a forest holds what is no number")


def _check_blend(blend: Blend) -> None:
    _check_machines(blend)


def _check_machines(machines: Forest | Blend) -> None:
    gates, weights = machines.gates, machines.weights
    sound = gates.ndim == 2 and weights.ndim == 3 and len(gates) == len(weights) > 0
    require(sound and gates.shape[1] > 1 and weights.shape[1] > 0, "there are no machines")
    n_local = gates.shape[1]
    n_global = n_local * (n_local + 1) // 2 if machines.form.quadratic else n_local
    require(weights.shape[2] == n_global, "the machines have other features than the gates")
    require(is_finite(gates) and is_finite(weights), "machines hold what is no number")


def _check_model(model: LDKLModel) -> None:
    alike = model.frame.offset.shape == (model.forest.n_features,)
    require(alike, "the frame has other features than the machines")


def _check_estimator(model: LocalDeepMachine, n_outputs: int) -> None:
    require(type(model.model_) is LDKLModel, "model_ is of a wrong type")
    forest = model.model_.forest
    require(forest.n_features == model.n_features_in_, "the machines have other features")
    require(forest.n_outputs == n_outputs, "the outputs do not fit the task")


def _check_classifier(model: LDKLClassifier) -> None:
    require(model.classes_.ndim == 1 and len(model.classes_) >= 2, "there are no classes")
    _check_estimator(model, 1 if len(model.classes_) == 2 else len(model.classes_))


def _check_regressor(model: LDKLRegressor) -> None:
    _check_estimator(model, 1)
    sound = np.isfinite(model.target_mean_) and 0 < model.target_scale_ < np.inf
    require(sound, "the targets have no finite place and size")
