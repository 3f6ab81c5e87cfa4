"""How an instance of a class gets into a model file, and what is asked of it on the way back.

A file may come from anybody: every field must have the type that its class declares, and each class
says what else must hold.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from types import SimpleNamespace
from typing import Any, get_type_hints

from sklearn.base import BaseEstimator

from vicinal.io.codec import Kind
from vicinal.io.container import ModelFormatError
from vicinal.io.types import fits

Parts = Mapping[str, Any]
Check = Callable[[Any], None]


def require(condition: object, what: str) -> None:
    """Raise `ModelFormatError` unless a condition holds."""
    if not condition:
        raise ModelFormatError(what)


def record(
    cls: type, check: Check = lambda whole: None, before: Mapping[str, Check] | None = None
) -> Kind:
    """Return the kind of a frozen dataclass or a named tuple.

    `check` is given the instance, and `before` a field is put together those that precede it.
    """
    hints = get_type_hints(cls)
    names = cls._fields if hasattr(cls, "_fields") else [field.name for field in fields(cls)]

    def whole(parts: Parts) -> Any:
        require(set(parts) == set(names), f"a {cls.__name__} is incomplete")
        values: dict[str, Any] = {}
        for name in names:
            if before and name in before:
                before[name](SimpleNamespace(**values))
            values[name] = parts[name]
            require(fits(values[name], hints[name]), f"{cls.__name__}.{name} is of a wrong type")
        made = cls(**values)
        check(made)
        return made

    return Kind(cls, lambda made: {name: getattr(made, name) for name in names}, whole)


def estimator(cls: type[BaseEstimator], check: Check = lambda whole: None) -> Kind:
    """Return the kind of an estimator: its parameters, and what its fit has found."""

    def parts(model: BaseEstimator) -> dict[str, Any]:
        model._validate_params()
        fitted = {name: v for name, v in vars(model).items() if _is_fitted_attribute(name)}
        return {"parameters": model.get_params(deep=False), **fitted}

    def whole(parts: Parts) -> BaseEstimator:
        model = cls(**parts["parameters"])
        model._validate_params()
        for name in parts:
            if name != "parameters":
                is_known = _is_fitted_attribute(name) and not hasattr(cls, name)
                require(is_known, f"{cls.__name__} has no {name[:60]!r}")
                setattr(model, name, parts[name])
        names = getattr(model, "feature_names_in_", None)
        alike = names is None or names.shape == (model.n_features_in_,)
        require(alike, "there are not as many names as features")
        check(model)
        return model

    return Kind(cls, parts, whole)


def _is_fitted_attribute(name: str) -> bool:
    public = name.isidentifier() and name.endswith("_") and not name.startswith("_")
    return public or name in ("_metric", "_index_", "_targets", "_subject", "_usual")


def below(indices: Any, end: int) -> bool:
    """Whether all of some indices are at least 0 and below an end."""
    return not indices.size or bool(indices.min() >= 0 and indices.max() < end)
