"""What a fitted model is, where its time went, and where it is weak, on a page."""

from __future__ import annotations

from collections.abc import Iterator
from inspect import signature
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import is_classifier
from sklearn.metrics import confusion_matrix
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

import vicinal
from vicinal.inspection import LocalModelsDisplay, RoutingDisplay, SelectionDisplay, StoppingDisplay
from vicinal.inspection.drawing import colours, need
from vicinal.local.covered import CoveredClassifier
from vicinal.nsv import NSVClassifier
from vicinal.nsv.model import NearestVectors
from vicinal.report.page import Page, percent, three_digits
from vicinal.report.pictures import WIDTH, Picture, new_figure, page_style

FOOTER = f"Made by vicinal {vicinal.__version__}."
_N_WEAKEST = 5
_MOST_CLASSES = 20
"""A table of more is too wide to be read."""


def model_report(model: Any, X: ArrayLike | None = None, y: ArrayLike | None = None) -> Page:
    """Describe a fitted model.

    Parameters
    ----------
    model : estimator
        One of this package's, or a Pipeline that ends in one.
    X : array-like of shape (n_samples, n_features), default=None
        Points that were not used for training, to show how well a classifier does.
    y : array-like of shape (n_samples,), default=None
        Their classes.

    Returns
    -------
    page : Page

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from vicinal import FaLKSVC
    >>> from vicinal.report import model_report
    >>> X, y = make_moons(500, noise=0.2, random_state=0)
    >>> page = model_report(FaLKSVC(n_neighbors=50).fit(X, y))
    >>> page.title
    'FaLKSVC'
    """
    if (X is None) != (y is None):
        raise ValueError("X and y come together: give both, or neither.")
    need("pyplot")
    check_is_fitted(model)
    last = model[-1] if isinstance(model, Pipeline) else model
    if X is not None and not is_classifier(model):
        raise ValueError(
            f"{type(last).__name__} is no classifier: there are no classes to compare."
        )
    page = Page(type(last).__name__, footer=FOOTER)
    _describe(page, model, last)
    if isinstance(last, CoveredClassifier):
        if getattr(last, "fit_report_", None):
            show_times(page.section("Where the time went"), last.fit_report_)
        if hasattr(last, "cv_results_"):
            _show_selection(page, last)
    if hasattr(last, "calibration_"):
        _show_calibration(page.section("How it was calibrated"), last.calibration_)
    if X is not None and y is not None:
        _show_answers(page, model, X, np.asarray(y))
        if isinstance(last, NSVClassifier) and isinstance(last.model_, NearestVectors):
            _show_stops(page, model, X)
        if isinstance(last, CoveredClassifier) and len(getattr(last, "models_", [])) == 1:
            _show_machines(page, model, X, y)
    _list_parameters(page.section("Parameters"), last)
    return page


def show_times(page: Page, report: dict[str, dict[str, Any]]) -> None:
    """Add a picture and a table of a fit's steps."""
    total = sum(step["seconds"] for step in report.values())
    with page_style():
        figure = new_figure(0.7 + 0.4 * len(report))
        ax = figure.subplots()
        seconds = [step["seconds"] for step in report.values()]
        ax.barh(list(report), seconds, color=colours(1)[0])
        ax.invert_yaxis()
        ax.spines[["top", "right"]].set_visible(False)
        ax.set_xlabel("seconds")
    longest = max(report, key=lambda name: report[name]["seconds"])
    page.pictures(
        Picture(
            figure,
            f"Bars of the seconds of each step; the longest is the {longest}.",
            f"The fit took {three_digits(total)} s, most of it in the {longest}.",
        )
    )
    rows = [
        {
            "step": name,
            "seconds": step["seconds"],
            "share": step["seconds"] / total if total else 0.0,
            "counts": ", ".join(_counts(step)),
        }
        for name, step in report.items()
    ]
    page.table(
        {"step": "Step", "seconds": "Seconds", "share": "Share", "counts": "What it did"},
        rows,
        caption="Steps of the fit",
        formats={"seconds": three_digits, "share": ".0%"},
    )


def _describe(page: Page, model: Any, last: Any) -> None:
    facts: dict[str, Any] = {}
    if isinstance(model, Pipeline):
        facts["pipeline"] = " → ".join(type(step).__name__ for _, step in model.steps)
    if len(getattr(last, "models_", [])) > 0:
        facts["training points"] = last.models_[0].problem.n_rows
    facts["features"] = last.n_features_in_
    if hasattr(last, "classes_"):
        facts["classes"] = len(last.classes_)
    if hasattr(last, "n_machines_"):
        facts["machines"] = last.n_machines_
        facts["machines of one class"] = last.n_unanimous_
    if hasattr(last, "n_support_"):
        of_all = " of all machines" if hasattr(last, "n_machines_") else ""
        facts[f"support vectors{of_all}"] = int(np.sum(last.n_support_))
    if hasattr(last, "n_vectors_"):
        facts["vectors"] = last.n_vectors_
    if hasattr(last, "cost_"):
        facts["machines"] = len(last.model_.forest.gates)
        facts["dot products for a query"] = last.cost_
    for name, value in getattr(last, "best_params_", {}).items():
        facts[f"chosen {name}"] = value
    if hasattr(last, "best_score_"):
        facts["accuracy in the cross-validation"] = percent(last.best_score_)
    page.section("What it is")
    page.table(
        {"fact": "What", "value": "Value"},
        [{"fact": name, "value": _plain(value)} for name, value in facts.items()],
        caption="The fitted model",
    )


def _show_calibration(page: Page, found: dict[str, Any]) -> None:
    page.table(
        {"fact": "What", "value": "Value"},
        [{"fact": name.replace("_", " "), "value": _plain(v)} for name, v in found.items()],
        caption="What the calibration chose, and the share of labels that it changed",
    )


def _show_stops(page: Page, model: Any, X: ArrayLike) -> None:
    with page_style():
        display = StoppingDisplay.from_estimator(model, X, ax=new_figure(3.6).subplots())
    page.section("Where queries stop")
    page.text(
        f"A query touches {display.steps.mean():.3g} of {display.n_support:,} support vectors on"
        f" average, {percent(display.filtered.mean())} none but the filter's, and"
        f" {display.changed.sum():,} of {len(display.steps):,} get another label than the exact"
        " machine's."
    )
    page.pictures(
        Picture(
            display.figure_,
            "Exact output of each query against the number of support vectors that it touches.",
            "Each dot is a query; lines are the thresholds that a partial sum has to exceed.",
        )
    )


def _list_parameters(page: Page, last: Any) -> None:
    given = last.get_params(deep=False)
    defaults = {name: each.default for name, each in signature(type(last)).parameters.items()}
    given.pop("n_jobs", None)  # it says nothing of what was learned
    rows = [
        {"name": name, "value": repr(value), "default": repr(defaults[name])}
        for name, value in given.items()
    ]
    page.table(
        {"name": "Parameter", "value": "Value", "default": "Default"},
        rows,
        caption="What it was given; what differs from the default is bold",
        strong=[n for n, row in enumerate(rows) if row["value"] != row["default"]],
    )


def _show_selection(page: Page, model: Any) -> None:
    with page_style():
        display = SelectionDisplay.from_estimator(model)
        need("pyplot").close(display.figure_)
        height = 1.2 + 0.4 * len(display.kernels) if display.images_ else 3.4
        figures = [new_figure(max(height, 2.6)) for _ in display.axes_]
        display.plot([figure.subplots() for figure in figures])
    best = ", ".join(f"{name} = {_plain(value)}" for name, value in model.best_params_.items())
    page.section("What the selection found").text(f"The best candidate has {best}.")
    page.pictures(*(_selection_picture(display, figure) for figure in figures))


def _selection_picture(display: SelectionDisplay, figure: Any) -> Picture:
    title = figure.axes[0].get_title() or "A dot for each candidate, a star for the best"
    caption = "Accuracy in the cross-validation, in percent."
    if display.dropped.any() and display.images_:
        caption += " Hatched candidates were dropped on the way."
    return Picture(figure, f"Accuracy in the cross-validation. {title}.", caption)


def _show_answers(page: Page, model: Any, X: ArrayLike, y: NDArray[Any]) -> None:
    """Add the accuracy, and which classes are taken for which."""
    classes = model.classes_
    if _is_text(classes) != _is_text(y):
        raise ValueError(
            f"y holds {'text' if _is_text(y) else 'numbers'}, and the classes of the model are"
            f" {'text' if _is_text(classes) else 'numbers'}."
        )
    if not np.isin(y, classes).any():
        raise ValueError("y holds no class of the model.")
    found = model.predict(X)
    labels = np.unique(np.concatenate([classes, y]))
    true, answered = np.searchsorted(labels, y), np.searchsorted(labels, found)
    counts = confusion_matrix(true, answered, labels=np.arange(len(labels)))
    page.section("How well it answers").text(
        f"{percent(np.mean(found == y))} of {len(y):,} points are answered right."
    )
    if len(labels) <= _MOST_CLASSES:
        page.table(
            {"true": "True class", **{f"{i}": f"as {label}" for i, label in enumerate(labels)}},
            [
                {"true": str(label), **{f"{i}": int(n) for i, n in enumerate(row)}}
                for label, row in zip(labels, counts, strict=True)
            ],
            caption="How many points of each class are answered as which",
        )
        return
    wrong = counts - np.diag(np.diag(counts))
    most = np.argsort(-wrong, axis=None, kind="stable")[:_MOST_CLASSES]
    pairs = zip(*np.unravel_index(most, wrong.shape), strict=True)
    page.table(
        {"true": "True class", "found": "Answer", "points": "Points"},
        [
            {"true": str(labels[i]), "found": str(labels[j]), "points": int(wrong[i, j])}
            for i, j in pairs
            if wrong[i, j]
        ],
        caption="The most frequent errors",
    )


def _is_text(labels: NDArray[Any]) -> bool:
    return labels.dtype.kind in "OSU"


def _show_machines(page: Page, model: Any, X: ArrayLike, y: ArrayLike) -> None:
    with page_style():
        display = RoutingDisplay.from_estimator(
            model, X, y, n_named=_N_WEAKEST, ax=new_figure(4.0).subplots()
        )
    weakest = display.weakest[:_N_WEAKEST]
    n_queries = int(display.n_queries.sum())
    asked = int((display.n_queries > 0).sum())
    page.section("Where it is weak")
    page.text(
        f"{asked:,} machines answered {n_queries:,} queries,"
        f" {percent(display.score)} of them right."
    )
    page.pictures(
        Picture(
            display.figure_,
            "Accuracy of each machine against the number of queries that it answers.",
            "Each dot is a machine, a larger one several. Those below the band are weaker than"
            " chance explains.",
        )
    )
    if len(weakest):
        page.table(
            {"machine": "Machine", "queries": "Queries", "accuracy": "Accuracy", "share": "Share"},
            [
                {
                    "machine": int(machine),
                    "queries": int(display.n_queries[machine]),
                    "accuracy": float(display.accuracy[machine]),
                    "share": _share_of_errors(display, machine),
                }
                for machine in weakest
            ],
            caption="The weakest machines, and their share of all errors",
            formats={"accuracy": ".1%", "share": ".1%"},
        )
    last = model[-1] if isinstance(model, Pipeline) else model
    if last.n_features_in_ > 1:
        with page_style():
            drawing = LocalModelsDisplay.from_estimator(model, X, y, ax=new_figure(4.9).subplots())
            drawing.figure_.set_figheight(drawing.height_for(WIDTH))
        page.section("Map").pictures(
            Picture(
                drawing.figure_,
                "A map of the predicted classes, the machines and some of the points.",
                "Colours are the predicted classes; grey lines are where another machine answers.",
            )
        )


def _share_of_errors(display: RoutingDisplay, machine: Any) -> float:
    errors = display.n_queries - display.n_correct
    return float(errors[machine] / errors.sum())


def _counts(step: dict[str, Any]) -> Iterator[str]:
    for name, value in step.items():
        words = name.replace("_", " ")
        if isinstance(value, bool):
            if value:
                yield words
        elif isinstance(value, int):
            yield f"{value:,} {words}"
        elif name != "seconds":
            yield f"{words}: {value}"


def _plain(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    return f"{value:,}" if isinstance(value, int) else str(value)
