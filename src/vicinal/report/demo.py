"""The demonstration: two noisy spirals, four classifiers, and a page about what came of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from vicinal.datasets import make_two_spirals
from vicinal.inspection import LearningCurve, LocalModelsDisplay
from vicinal.inspection.drawing import FAINT, need
from vicinal.local.falk import FaLKSVC
from vicinal.report.model import FOOTER, show_times
from vicinal.report.page import Page, percent, three_digits
from vicinal.report.pictures import Picture, new_figure, page_style

Row = dict[str, Any]
Data = tuple[NDArray[Any], NDArray[Any]]

_ATTAINABLE = 0.885
"""The accuracy that no classifier can exceed on these data."""

_MOST_TESTED = 50_000


@dataclass(frozen=True)
class DemoResult:
    """What a demonstration leaves.

    Parameters
    ----------
    path : Path
        The page.
    rows : list of dict
        One for each classifier: its "model" (name), training "points", "fit_s" and "predict_s",
        "accuracy", and its "machines" and "support_vectors", None where it has none.
    """

    path: Path
    rows: list[Row]


def _silent(step: str) -> None:
    """Say nothing."""


def demo(
    path: Path,
    *,
    n_samples: int = 100_000,
    n_jobs: int = -1,
    random_state: int = 0,
    on_step: Callable[[str], None] = _silent,
) -> DemoResult:
    """Train on two noisy spirals, compare with other classifiers, and write a page about it.

    Parameters
    ----------
    path : Path
        The HTML file to write.
    n_samples : int, default=100_000
        Number of training points.
    n_jobs : int, default=-1
        Threads; -1 means all cores.
    random_state : int, default=0
        Determines the data.
    on_step : callable, optional
        Hears what is done next, in a few words.

    Returns
    -------
    result : DemoResult
    """
    need("pyplot")
    on_step(f"Drawing {n_samples:,} points of two noisy spirals")
    train = make_two_spirals(n_samples, random_state=random_state)
    test = make_two_spirals(min(n_samples, _MOST_TESTED), random_state=random_state + 1)

    on_step("Training FaLKSVC")
    model = FaLKSVC(n_neighbors=min(500, max(2, n_samples // 4)), n_jobs=n_jobs)
    rows = [_measure("FaLKSVC", model, train, test)]
    budget = rows[0]["fit_s"]
    on_step(f"Training SVC on as many points as it takes in {budget:.2g} s")
    n_fitting = _points_within(budget, *train)
    some = train[0][:n_fitting], train[1][:n_fitting]
    rows.append(_measure("SVC", _svc(), some, test))
    on_step("Training nearest neighbours")
    nearest = KNeighborsClassifier(min(100, n_samples // 4), n_jobs=n_jobs)
    rows.append(_measure("KNeighborsClassifier", nearest, train, test))
    on_step("Training gradient boosting")
    boosting = HistGradientBoostingClassifier(random_state=0)
    with threadpool_limits(effective_n_jobs(n_jobs), user_api="openmp"):
        rows.append(_measure("HistGradientBoostingClassifier", boosting, train, test))

    on_step("Drawing the learning curve")
    page = Page(
        "Two noisy spirals",
        f"FaLKSVC learned {n_samples:,} points in {three_digits(budget)} s with"
        f" {model.n_machines_:,} small machines, and answers {percent(rows[0]['accuracy'])} of"
        f" {len(test[1]):,} new points right. No classifier can reach more than"
        f" {percent(_ATTAINABLE, 1)} on these data.",
        FOOTER,
    )
    _compare(page, rows, model, nearest)
    learning = _learning_curve(model, train, test)
    on_step("Drawing the map")
    _show_maps(page, model, *train)
    page.section("Accuracy and time against the number of points").pictures(learning)
    show_times(page.section("Where the time went"), model.fit_report_)
    return DemoResult(page.write(path), rows)


def _svc() -> SVC:
    # The best of a grid of C and gamma in the time of a few thousand points.
    return SVC(C=10, gamma=8)


def _measure(name: str, model: Any, train: Data, test: Data) -> Row:
    begin = perf_counter()
    model.fit(*train)
    fitted = perf_counter()
    correct = model.predict(test[0]) == test[1]
    return {
        "model": name,
        "points": len(train[1]),
        "fit_s": fitted - begin,
        "predict_s": perf_counter() - fitted,
        "accuracy": float(correct.mean()),
        "machines": getattr(model, "n_machines_", None),
        "support_vectors": int(np.sum(model.n_support_)) if hasattr(model, "n_support_") else None,
    }


def _points_within(budget: float, X: NDArray[Any], y: NDArray[Any]) -> int:
    """Return about how many points an SVC learns in some seconds.

    Its time is measured on twice as many points each time, until that takes half of the budget,
    and continued as a power of their number: the one of the last two measurements, but at least
    1.5, as the last doubling may have been a lucky one.
    """
    n = min(250, len(y))
    seconds = [_seconds_to_fit(X[:n], y[:n])]
    while seconds[-1] < budget / 2 and n < len(y):
        n = min(2 * n, len(y))
        seconds.append(_seconds_to_fit(X[:n], y[:n]))
    power = max(1.5, np.log2(seconds[-1] / seconds[-2])) if len(seconds) > 1 else 2.0
    return int(np.clip(n * (budget / seconds[-1]) ** (1 / power), min(250, len(y)), len(y)))


def _seconds_to_fit(X: NDArray[Any], y: NDArray[Any]) -> float:
    begin = perf_counter()
    _svc().fit(X, y)
    return perf_counter() - begin


def _compare(page: Page, rows: list[Row], model: Any, nearest: Any) -> None:
    svc = rows[1]
    page.section("Compared with others").table(
        {
            "model": "Model",
            "accuracy": "Accuracy",
            "points": "Training points",
            "fit_s": "Fit, s",
            "predict_s": "Predict, s",
            "machines": "Machines",
            "support_vectors": "Support vectors",
        },
        rows,
        caption="Four classifiers on the same data",
        formats={"fit_s": three_digits, "predict_s": three_digits, "accuracy": ".2%"},
        strong=[0],
    )
    page.text(
        f"SVC had the time that FaLKSVC took, {three_digits(rows[0]['fit_s'])} s, which is enough"
        f" for about {svc['points']:,} points: its fit was timed on more and more points, and"
        f" continued from there. It uses one core, C = {_svc().C:g} and gamma ="
        f" {_svc().gamma:g}, which a search found best for a few thousand points. FaLKSVC and"
        f" gradient boosting have their defaults, k = {model.n_neighbors} among them, and"
        f" {nearest.n_neighbors} nearest neighbours vote."
    )


def _learning_curve(model: FaLKSVC, train: Data, test: Data) -> Picture:
    n, k = len(train[1]), model.n_neighbors
    X, y = (np.concatenate(pair) for pair in zip(train, test, strict=True))
    with page_style():
        axes = new_figure(5.2).subplots(2, 1, sharex=True)
        display = LearningCurve.from_estimator(
            {
                f"k = {size}": clone(model).set_params(n_neighbors=size)
                for size in (max(2, k // 5), k)
            },
            X,
            y,
            train_sizes=np.unique(np.geomspace(min(n, 2 * k), n, 6).astype(int)),
            cv=[(np.arange(n), np.arange(n, len(y)))],
            axes=axes,
        )
        axes[0].axhline(_ATTAINABLE, color=FAINT, linestyle=":", label="the best attainable")
        axes[0].legend(frameon=False)
    return Picture(
        display.figure_,
        "Curves of accuracy on new points and of seconds to fit, over the number of points.",
        "More points make local machines better as a rule, up to what the noise allows, and the"
        " time of the fit grows with their number.",
    )


def _show_maps(page: Page, model: Any, X: NDArray[Any], y: NDArray[Any]) -> None:
    edge = float(np.quantile(np.abs(X), 0.999))
    with page_style():
        whole = LocalModelsDisplay.from_estimator(
            model,
            X,
            y,
            region=(-edge, edge, -edge, edge),
            layers=["regions", "points", "centres"],
            ax=new_figure(5.0).subplots(),
        )
        part = LocalModelsDisplay.from_estimator(
            model,
            X,
            y,
            region=(0.02 * edge, 0.52 * edge, 0.02 * edge, 0.52 * edge),
            ax=new_figure(5.0).subplots(),
        )
    page.section("The local machines")
    page.text(
        f"Some training points are centres. A machine is trained on the k = {model.n_neighbors}"
        f" points around each, and the {model.models_[0].cover.n_assigned} nearest of them, k′, are"
        " covered: together the centres cover all points. A query is answered by the machine to"
        " which its nearest training point belongs."
    )
    page.pictures(
        Picture(
            whole.figure_,
            "A map of both spirals: the predicted classes follow the arms, and centres lie denser"
            " where the arms are narrow.",
            f"All {model.n_machines_:,} centres, and a sample of the points, over the predicted"
            " classes.",
        ),
        Picture(
            part.figure_,
            "A part of the map: some neighbourhoods as circles, and the borders between the places"
            " that different machines answer.",
            "A part of the map, with some neighbourhoods. Between grey lines one machine answers.",
        ),
    )
