"""train and tune."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

import typer

from vicinal.cli import options, show
from vicinal.cli.errors import DataError, UsageError
from vicinal.cli.models import build, last_step, n_support_vectors, with_scaler

_SHOWN_CANDIDATES = 10

OutputOption = Annotated[
    str, typer.Option("--output", "-o", metavar="MODEL", help="Where the model goes.")
]


def train(
    data: options.DataArgument,
    output: OutputOption,
    model: options.KindOption = "falk",
    settings: options.SetOption = None,
    scale: options.ScaleOption = "minmax",
    target: options.TargetOption = None,
    format: options.FormatOption = None,
    header: options.HeaderOption = None,
    zero_based: options.ZeroBasedOption = False,
    jobs: options.JobsOption = -1,
    seed: options.SeedOption = None,
    json: options.JsonOption = False,
) -> None:
    """Train a model on DATA and save it."""
    from vicinal.cli.data import data_file

    estimator = build(model, settings or [], jobs=jobs, seed=seed)
    pipeline = with_scaler(estimator, scale)
    _check_place(output, data)
    report = _fit(pipeline, data_file(data, format, target, zero_based, header))
    report["seconds"]["saving"] = _save(pipeline, output)
    report["model"] = output
    report["bytes"] = Path(output).stat().st_size
    if json:
        show.emit(report)
    else:
        _show_fit(report)


def tune(
    data: options.DataArgument,
    output: Annotated[
        str | None,
        typer.Option(
            "--output", "-o", metavar="MODEL", help="Where the best model goes, refitted."
        ),
    ] = None,
    settings: options.SetOption = None,
    scale: options.ScaleOption = "minmax",
    target: options.TargetOption = None,
    format: options.FormatOption = None,
    header: options.HeaderOption = None,
    zero_based: options.ZeroBasedOption = False,
    jobs: options.JobsOption = -1,
    seed: options.SeedOption = None,
    json: options.JsonOption = False,
) -> None:
    """Choose the neighbourhood size, C and the kernel width on DATA.

    Candidates are lists: --set n_neighbors=[250,500] --set C=[1,16].
    """
    from vicinal.cli.data import data_file

    refit = f"refit={output is not None}"
    estimator = build("falk-cv", [refit, *(settings or [])], jobs=jobs, seed=seed)
    if output is not None and not estimator.refit:
        raise UsageError("without a refit there is no model to save: leave out --set refit.")
    pipeline = with_scaler(estimator, scale)
    if output is not None:
        _check_place(output, data)
    report = _fit(pipeline, data_file(data, format, target, zero_based, header))
    if output is not None:
        report["seconds"]["saving"] = _save(pipeline, output)
        report["model"] = output
    found = estimator.cv_results_
    order = found["rank_test_score"].argsort(kind="stable")
    report["best_parameters"] = estimator.best_params_
    report["best_score"] = estimator.best_score_
    report["candidates"] = [
        {
            "parameters": found["params"][i],
            "score": found["mean_test_score"][i],
            "std": found["std_test_score"][i],
            "centres": found["n_centres"][i],
        }
        for i in order
    ]
    if json:
        show.emit(report)
        return
    names = list(dict.fromkeys(name for each in found["params"] for name in each))
    show.grid(
        [*names, "accuracy", "± std", "centres"],
        [
            [
                *(each["parameters"].get(name) for name in names),
                *(each[key] for key in ("score", "std", "centres")),
            ]
            for each in report["candidates"][:_SHOWN_CANDIDATES]
        ],
        title=f"The best of {len(order)} candidates",
    )
    _show_fit(report)
    settings_again = " ".join(f"--set {k}={v}" for k, v in estimator.best_params_.items())
    show.pairs({"best": settings_again})


def _fit(pipeline: Any, file: Any) -> dict[str, Any]:
    """Read, fit, and report."""
    import numpy as np

    begin = perf_counter()
    with show.progress_of_rows("read", to_terminal=False) as done:
        data = file.read(done)
    reading = perf_counter() - begin
    _warn_of_header(data, file)
    if hasattr(pipeline, "steps") and hasattr(pipeline[0], "with_std"):
        _check_squares(data.X, file.title)
    estimator = last_step(pipeline)
    begin = perf_counter()
    try:
        with show.progress_of_fit(pipeline):
            pipeline.fit(data.X, data.y)
    except ValueError as error:
        raise DataError(f"{file.title}: {error}") from error
    fitting = perf_counter() - begin
    _remember_names(pipeline, data.names)
    steps = getattr(estimator, "fit_report_", {})
    return {
        "estimator": type(estimator).__name__,
        "parameters": estimator.get_params(),
        "points": len(data.X),
        "features": data.X.shape[1],
        "classes": np.unique(data.y),
        "machines": getattr(estimator, "n_machines_", None),
        "unanimous": getattr(estimator, "n_unanimous_", None),
        "support_vectors": n_support_vectors(estimator),
        "cost": getattr(estimator, "cost_", None),
        "seconds": {
            "reading": reading,
            **{name: step["seconds"] for name, step in steps.items() if "seconds" in step},
            "fit": fitting,
        },
    }


def _check_squares(X: Any, title: str) -> None:
    """Raise if the variance of a feature would overflow."""
    import numpy as np

    if max(X.max(), -X.min()) > np.sqrt(np.finfo(X.dtype).max / len(X)) / 2:
        raise DataError(f"{title}: values are too large for --scale standard.")


def _warn_of_header(data: Any, file: Any) -> None:
    """Warn if the first row may have been a header of numbers."""
    import warnings

    if data.names is None and (data.y == data.y[0]).sum() == 1 and file.layout.header is None:
        warnings.warn(
            f"the class {data.y[0]} occurs in the first row of {file.title} and nowhere else. If"
            " that row has the names of the columns, say --header.",
            stacklevel=2,
        )


def _remember_names(pipeline: Any, names: list[str] | None) -> None:
    """Leave names where scikit-learn does after a fit on a data frame: in the first step."""
    import numpy as np

    if names is not None and len(set(names)) == len(names):  # else they tell nothing apart
        first = pipeline.steps[0][1] if hasattr(pipeline, "steps") else pipeline
        first.feature_names_in_ = np.array(names, dtype=object)


def _check_place(output: str, data: str) -> None:
    """Raise before a long fit if its model could not be saved afterwards."""
    from vicinal.cli.data.streams import STANDARD, check_folder, check_not_input

    if output == STANDARD:
        raise UsageError("a model is saved as a file: give -o a name.")
    check_folder(output)
    check_not_input(output, data)
    if Path(output).exists() and not Path(output).is_file():
        raise UsageError(f"{output} is no plain file, and a model cannot be saved there.")


def _save(pipeline: Any, output: str) -> float:
    from vicinal.cli.data.streams import naming
    from vicinal.io import save

    begin = perf_counter()
    with naming(output):
        save(pipeline, output)
    return perf_counter() - begin


def _show_fit(report: dict[str, Any]) -> None:
    n_classes = len(report["classes"])
    show.pairs(
        {
            "estimator": report["estimator"],
            "points": report["points"],
            "features": report["features"],
            "classes": n_classes,
            "machines": report["machines"],
            "of one class": report["unanimous"],
            "support vectors": report["support_vectors"],
            "dot products a query": report["cost"],
            **{
                f"{'all of the fit' if name == 'fit' else name}, s": seconds
                for name, seconds in report["seconds"].items()
            },
            "model": report.get("model"),
            "size": show.size(report["bytes"]) if "bytes" in report else None,
        }
    )
