"""Sparse kernel machines in model files."""

from __future__ import annotations

from typing import Any

from sklearn.utils.validation import check_is_fitted

from vicinal.io.codec import Kind
from vicinal.io.early import as_recipe, is_finite
from vicinal.io.records import estimator, record, require
from vicinal.kernels import LINEAR, POLY
from vicinal.sparse import ReducedSetClassifier, SharedExpansion
from vicinal.sparse.base import SparseClassifier
from vicinal.sparse.pskc import PSKClassifier
from vicinal.sparse.rsvm import RSVMClassifier
from vicinal.sparse.skla import SKLAClassifier


def kinds(scalers: tuple[type, ...]) -> list[Kind]:
    """Return the kinds of everything here, behind known scalers."""
    return [
        record(SharedExpansion, _check_expansion),
        *(
            estimator(cls, _check_classifier)
            for cls in (PSKClassifier, RSVMClassifier, SKLAClassifier)
        ),
        _of_reduced_set(scalers),
    ]


def _check_expansion(expansion: SharedExpansion) -> None:
    for part in vars(expansion).values():
        require(is_finite(part), "an expansion holds what is no number")
    kind, gamma, coef0, degree = expansion.kernel
    require(
        expansion.vectors.ndim == 2
        and len(expansion.vectors) > 0
        and expansion.frame.offset.shape == expansion.vectors.shape[1:]
        and expansion.bias.ndim == 1
        and expansion.coef.shape == (len(expansion.vectors), len(expansion.bias)),
        "the arrays of an expansion do not fit together",
    )
    require(
        LINEAR <= kind <= POLY
        and 0 < gamma < float("inf")
        and abs(coef0) < float("inf")
        and 1 <= degree <= 1000,
        "an expansion has no kernel",
    )


def _check_classifier(model: SparseClassifier) -> None:
    expansion, n_classes = model.expansion_, len(model.classes_)
    require(type(expansion) is SharedExpansion, "expansion_ is of a wrong type")
    require(model.classes_.ndim == 1 and n_classes >= 2, "there are no classes")
    n_outputs = 1 if n_classes == 2 else n_classes
    require(expansion.n_outputs == n_outputs, "the outputs do not fit the classes")
    width = model.n_features_in_
    require(expansion.vectors.shape[1] == width, "the vectors have other features")


def _of_reduced_set(scalers: tuple[type, ...]) -> Kind:
    def check(model: ReducedSetClassifier) -> None:
        expansion, n_classes = model.expansion_, len(model.classes_)
        require(type(expansion) is SharedExpansion, "expansion_ is of a wrong type")
        require(model.classes_.ndim == 1 and n_classes >= 2, "there are no classes")
        require(
            expansion.n_outputs == n_classes * (n_classes - 1) // 2,
            "the outputs do not fit the classes",
        )
        require(isinstance(model.steps_, tuple), "steps_ is of a wrong type")
        width = model.n_features_in_
        for step in model.steps_:
            require(isinstance(step, scalers), "a step before a machine is no scaler")
            check_is_fitted(step)
            require(step.n_features_in_ == width, "a scaler has other features")
        require(expansion.vectors.shape[1] == width, "the vectors have other features")

    kind = estimator(ReducedSetClassifier, check)

    def parts(model: ReducedSetClassifier) -> dict[str, Any]:
        found = kind.parts(model)
        found["parameters"]["estimator"] = as_recipe(model.estimator)
        found.pop("estimator_", None)  # absent in a model that comes from a file
        return found

    return Kind(ReducedSetClassifier, parts, kind.whole)
