"""Nearest support vectors in model files.

A file holds what answers queries: the expansion, its axes and thresholds, and the scalers before
it. Of the estimator that the machine was taken from it keeps the parameters alone, as a recipe for
another fit: what it has learnt is the expansion.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, get_type_hints

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.svm import SVC, NuSVC
from sklearn.utils.validation import check_is_fitted

from vicinal import engine
from vicinal.engine import Walking
from vicinal.io.codec import Kind
from vicinal.io.records import Parts, below, estimator, record, require
from vicinal.io.types import fits
from vicinal.nsv import KernelMachine, NSVClassifier
from vicinal.nsv.cover import EarlyCover, Expansions
from vicinal.nsv.expansion import Expansion, Lift
from vicinal.nsv.fidelity import Usual
from vicinal.nsv.model import Level, LinearFilter, NearestVectors, Sketch
from vicinal.nsv.regions import Regions
from vicinal.nsv.subjects import Subject


@dataclass(frozen=True)
class Recipe:
    """An estimator without what it has learnt: its class and its parameters."""

    name: str
    parameters: dict[str, Any]


def as_recipe(value: Any) -> Any:
    """Return what a file keeps of an estimator that another one was given."""
    if isinstance(value, BaseEstimator):
        given = value.get_params(deep=False)
        if isinstance(value, Pipeline):
            given["memory"] = None  # a place on a disk from which the next fit would load code
        if isinstance(value, KernelMachine):
            given = _kernel_machine_parameters(value)
        name = type(value).__name__
        return Recipe(name, {key: as_recipe(each) for key, each in given.items()})
    if type(value) in (list, tuple):
        return type(value)(map(as_recipe, value))
    return value


def _kernel_machine_parameters(machine: KernelMachine) -> dict[str, Any]:
    vectors, coef = machine.checked()
    arrays = {"vectors": vectors, "coef": coef, "classes": machine.classes_}
    return machine.get_params(deep=False) | arrays


def kinds(scalers: tuple[type, ...], classifiers: tuple[type, ...]) -> list[Kind]:
    """Return the kinds of everything here, behind known scalers and over known classifiers."""
    known = (SVC, NuSVC, KernelMachine, Pipeline, FrozenEstimator, *scalers, *classifiers)
    by_name = {cls.__name__: cls for cls in known}

    def cook(parts: Parts) -> Any:
        name, parameters = parts["name"], parts["parameters"]
        require(name in by_name, f"{str(name)[:60]!r} is no estimator of a recipe")
        made = by_name[name](**parameters)
        if hasattr(made, "_validate_params"):
            made._validate_params()
        return made

    def recipe_parts(recipe: Recipe) -> dict[str, Any]:
        if recipe.name not in by_name:
            raise TypeError(
                f"a {recipe.name} is part of the model's estimator, which a model file cannot hold."
                f" It may hold {', '.join(sorted(by_name))}."
            )
        return vars(recipe)

    def check_subject(subject: Subject) -> None:
        for step in subject.steps:
            require(isinstance(step, scalers), "a step before a machine is no scaler")
            check_is_fitted(step)
        shape = (subject.expansion.n_classes,)
        require(subject.classes.shape == shape, "the classes do not fit the machine")

    return [
        Kind(Recipe, recipe_parts, cook),
        Kind(engine.EarlyMachine, _machine_parts, _whole_machine),
        record(Walking),
        record(Lift, _check_lift),
        record(Expansion, _check_expansion),
        record(LinearFilter),
        record(Sketch, _check_sketch),
        record(Level),
        record(Regions, _check_regions),
        record(NearestVectors, _check_model),
        record(Expansions),
        record(EarlyCover, _check_cover),
        record(Usual),
        record(Subject, check_subject),
        _of_classifier(),
        _of_kernel_machine(),
    ]


_ARGUMENTS = get_type_hints(engine.EarlyMachine.__init__)
del _ARGUMENTS["return"]


def _machine_parts(machine: engine.EarlyMachine) -> dict[str, Any]:
    return dict(zip(_ARGUMENTS, machine.__reduce__()[1], strict=True))


def _whole_machine(parts: Parts) -> engine.EarlyMachine:
    require(set(parts) == set(_ARGUMENTS), "an EarlyMachine is incomplete")
    arguments = dict(parts)
    # The engine would convert other types, which takes memory.
    for name, hint in _ARGUMENTS.items():
        require(fits(arguments[name], hint), f"EarlyMachine.{name} is of a wrong type")
        require(is_finite(arguments[name]), f"EarlyMachine.{name} holds what is no number")
    axes, vectors = arguments["axes"], arguments["vectors"]
    require(len(axes) <= min(vectors.shape, default=0), "there are more axes than features")
    require(len(arguments["landmarks"]) <= len(vectors), "there are more landmarks than vectors")
    return engine.EarlyMachine(**arguments)


def _check_lift(lift: Lift) -> None:
    require(0 < lift.gamma < np.inf and 0 <= lift.coef0 < np.inf, "a lift leads nowhere")


def _check_expansion(expansion: Expansion) -> None:
    for part in vars(expansion).values():
        require(is_finite(part), "an expansion holds what is no number")
    require(expansion.vectors.ndim == 2, "an expansion has no vectors")
    require(
        expansion.frame.offset.shape == expansion.vectors.shape[1:],
        "the frame does not fit the vectors",
    )
    NearestVectors.exact(expansion)


def _check_sketch(sketch: Sketch) -> None:
    for part in sketch[:-1]:  # thresholds may be infinite
        require(is_finite(part), "a sketch holds what is no number")


def _check_regions(regions: Regions) -> None:
    n_nodes, is_leaf = len(regions.feature), regions.feature < 0
    require(
        n_nodes and all(part.shape == (n_nodes,) for part in regions),
        "a tree of regions is incomplete",
    )
    leaves = regions.below[is_leaf]
    later = np.arange(n_nodes)[~is_leaf]
    for child in (regions.below[~is_leaf], regions.above[~is_leaf]):
        require((child > later).all() and (child < n_nodes).all(), "a tree of regions has a loop")
    require(np.array_equal(leaves, np.arange(len(leaves))), "a region is missing")


def _check_model(model: NearestVectors) -> None:
    """Let the engine check that everything fits its machine, by asking it nothing."""
    n_rows = model.regions.n_regions * model.expansion.n_classes
    require(
        model.regions.feature.max() < model.expansion.vectors.shape[1]
        and all(len(level.thresholds) == n_rows for level in model.levels),
        "the regions do not fit the machine",
    )
    model.answer(np.empty((0, model.expansion.vectors.shape[1]), np.float32), n_threads=1)


def is_finite(part: Any) -> bool:
    """Return whether a part holds numbers, if it is an array of floats."""
    is_float = isinstance(part, np.ndarray) and part.dtype.kind == "f"
    return not is_float or bool(np.isfinite(part).all())


def _check_cover(model: EarlyCover) -> None:
    expansions, numbers = model.expansion, model.numbers
    require(
        numbers.shape == (len(model.early),)
        and below(numbers, len(expansions.model.machines))
        and bool((np.diff(numbers) > 0).all()),
        "the machines that stop early are none of the cover",
    )
    n_known = np.diff(expansions.model.machines.class_ptr)
    for number, early in zip(numbers, model.early, strict=True):
        require(
            early.expansion.n_features == expansions.n_features
            and early.expansion.n_classes == n_known[number],
            "a machine that stops early does not fit its cover",
        )


def _of_classifier() -> Kind:
    kind = estimator(NSVClassifier, _check_classifier)

    def parts(model: NSVClassifier) -> dict[str, Any]:
        found = kind.parts(model)
        found["parameters"]["estimator"] = as_recipe(model.estimator)
        found.pop("estimator_", None)  # absent in a model that comes from a file
        return found

    return Kind(NSVClassifier, parts, kind.whole)


def _of_kernel_machine() -> Kind:
    def parts(machine: KernelMachine) -> dict[str, Any]:
        return {"parameters": _kernel_machine_parameters(machine)}

    def check(machine: KernelMachine) -> None:
        machine.checked()

    return Kind(KernelMachine, parts, estimator(KernelMachine, check).whole)


_FITTED = {
    "classes_": np.ndarray,
    "n_support_": int | np.ndarray,
    "calibration_": dict,
    "model_": NearestVectors | EarlyCover,
    "n_features_in_": int,
    "_subject": Subject,
    "_usual": Usual,
}


def _check_classifier(model: NSVClassifier) -> None:
    for name, hint in _FITTED.items():
        require(
            isinstance(getattr(model, name, None), hint), f"{name} is missing or of a wrong type"
        )
    subject, width = model._subject, model.model_.expansion.n_features
    require(np.array_equal(subject.classes, model.classes_), "the machine has other classes")
    require(
        model.model_.expansion.n_classes == subject.expansion.n_classes
        and model._usual.mean.shape == model._usual.spread.shape == (width,),
        "the parts of the model do not fit together",
    )
    with np.errstate(all="ignore"):
        query = subject.queries(np.zeros((1, model.n_features_in_)))
    require(query.shape == (1, width), "the features do not fit the machine")
