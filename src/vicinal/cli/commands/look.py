"""info, report and demo."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from vicinal.cli import options, show
from vicinal.cli.errors import UsageError, some
from vicinal.cli.models import last_step, load, n_support_vectors

_SHOWN_ARRAYS = 8

ModelArgument = Annotated[str, typer.Argument(metavar="MODEL", help="A model that train saved.")]


def info(model: ModelArgument, json: options.JsonOption = False) -> None:
    """Say what a model is, and what takes the space in its file."""
    from vicinal.io import describe

    file = describe(model)
    loaded = load(model, jobs=1)
    estimator = last_step(loaded)
    arrays = [
        {"name": name, "type": str(array.dtype), "shape": array.shape, "bytes": array.nbytes}
        for name, array in file.arrays.items()
    ]
    arrays.sort(key=lambda array: -array["bytes"])
    result = {
        "model": model,
        "estimator": type(estimator).__name__,
        "steps": [type(step).__name__ for _, step in getattr(loaded, "steps", [("", estimator)])],
        "parameters": estimator.get_params(),
        "features": estimator.n_features_in_,
        "feature_names": getattr(loaded, "feature_names_in_", None),
        "classes": getattr(estimator, "classes_", None),
        "machines": getattr(estimator, "n_machines_", None),
        "support_vectors": n_support_vectors(estimator),
        "cost": getattr(estimator, "cost_", None),
        "calibration": getattr(estimator, "calibration_", None),
        "format_version": file.format_version,
        "library_version": file.library_version,
        "bytes": file.n_bytes,
        "arrays": arrays,
    }
    if json:
        show.emit(result)
        return
    classes, names = result["classes"], result["feature_names"]
    show.pairs(
        {
            "steps": ", ".join(result["steps"]),
            "features": result["features"],
            "named": None if names is None else some(names.tolist()),
            "classes": None if classes is None else ", ".join(map(str, classes.tolist())),
            "machines": result["machines"],
            "support vectors": result["support_vectors"],
            "dot products a query": result["cost"],
            "written by": f"vicinal {file.library_version}, format {file.format_version}",
            "size": show.size(file.n_bytes),
        }
    )
    if found := result["calibration"]:
        show.pairs({name.replace("_", " "): each for name, each in found.items()}, "\nCalibration")
    show.pairs(result["parameters"] | {"n_jobs": None}, title="\nParameters")
    show.grid(
        ["array", "type", "shape", "size"],
        [
            [each["name"], each["type"], " × ".join(map(str, each["shape"])), _Size(each["bytes"])]
            for each in arrays[:_SHOWN_ARRAYS]
        ],
        title=f"\nThe largest of {len(arrays)} arrays",
    )


def report(
    model: ModelArgument,
    data: Annotated[
        str | None,
        typer.Argument(metavar="[DATA]", help="Data with labels, to measure the model on."),
    ] = None,
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="PAGE", help="Where the page goes.")
    ] = "report.html",
    target: options.TargetOption = None,
    format: options.FormatOption = None,
    header: options.HeaderOption = None,
    zero_based: options.ZeroBasedOption = False,
    jobs: options.JobsOption = -1,
    json: options.JsonOption = False,
) -> None:
    """Write a page about a model, and about how it does on DATA."""
    from vicinal.cli.data import data_file
    from vicinal.cli.data.streams import check_folder, check_not_input, naming
    from vicinal.report import model_report

    check_folder(output)
    check_not_input(output, model, data)
    loaded = load(model, jobs=jobs)
    X = y = None
    if data is not None:
        if not hasattr(loaded, "classes_"):
            raise UsageError(f"{model} is no classifier, which DATA could measure: leave them out.")
        file = data_file(data, format, target, zero_based, header)
        found = file.for_model(loaded).read()
        X, y = found.X, found.y
    page = model_report(loaded, X, y)
    with naming(output):
        page.write(output)
    if json:
        show.emit({"model": model, "data": data, "page": output})
    else:
        print(output)


def demo(
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="PAGE", help="Where the page goes.")
    ] = "vicinal-demo.html",
    samples: Annotated[
        int | None, typer.Option(min=1000, help="Training points; the default takes a minute.")
    ] = None,
    jobs: options.JobsOption = -1,
    seed: Annotated[int, typer.Option(help="For the data.")] = 0,
    json: options.JsonOption = False,
) -> None:
    """Compare vicinal with other classifiers on data made here, and write a page about it."""
    from vicinal.cli.data.streams import check_folder, naming
    from vicinal.report.demo import demo as run_demo

    check_folder(output)
    chosen = {} if samples is None else {"n_samples": samples}
    with naming(output), show.steps() as on_step:
        result = run_demo(Path(output), **chosen, n_jobs=jobs, random_state=seed, on_step=on_step)
    if json:
        show.emit({"rows": result.rows, "page": str(result.path)})
        return
    headings = list(result.rows[0])
    show.grid(headings, [[row.get(name) for name in headings] for row in result.rows])
    print(result.path)


class _Size(int):
    """A number of bytes, which is shown as one but stands to the right like any number."""

    def __str__(self) -> str:
        return show.size(int(self))
