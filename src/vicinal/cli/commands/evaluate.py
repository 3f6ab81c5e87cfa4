"""evaluate."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from vicinal.cli import options, show
from vicinal.cli.errors import DataError, UsageError, some

_SHOWN_CLASSES = 12
"""A confusion matrix of more does not fit into a terminal."""


def evaluate(
    data: Annotated[
        str,
        typer.Argument(
            metavar="DATA",
            help="Data file with labels; or, with --labels, predicted labels, one a line."
            " '-' is standard input.",
        ),
    ],
    model: Annotated[
        str | None, typer.Option("--model", "-m", metavar="MODEL", help="Which model answers.")
    ] = None,
    labels: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="Data file with the true labels, when DATA are predictions."
        ),
    ] = None,
    target: options.TargetOption = None,
    format: options.FormatOption = None,
    header: options.HeaderOption = None,
    zero_based: options.ZeroBasedOption = False,
    jobs: options.JobsOption = -1,
    json: options.JsonOption = False,
) -> None:
    """Compare predictions with the true labels.

    vicinal evaluate test.csv -m MODEL predicts by itself;
    vicinal predict test.csv -m MODEL | vicinal evaluate - --labels test.csv takes what is there.
    """
    from vicinal.cli.data import data_file

    if (model is None) == (labels is None):
        both = ", and not both" if model is not None else ""
        raise UsageError(f"evaluate needs a model, -m MODEL, or true labels, --labels FILE{both}.")
    rate = None
    if model is not None:
        from vicinal.cli.predictor import Predictor

        file = data_file(data, format, target, zero_based, header)
        predictor = Predictor(model, file, jobs=jobs)
        true, predicted = predictor.compared()
        _warn_of_unknown(true, predictor.classes, data, model)
        rate = predictor.rate
    else:
        assert labels is not None
        if data == labels == "-":
            raise UsageError("predictions and true labels cannot both be standard input.")
        predicted = _read_predictions(data)
        true = data_file(labels, format, target, zero_based, header).labels()
        if len(true) != len(predicted):
            raise DataError(f"{data} has {len(predicted)} labels, and {labels} has {len(true)}.")
    result = _scores(true, predicted)
    if rate is not None:
        result["queries_per_second"] = rate
    if json:
        show.emit(result)
    else:
        _show_scores(result)


def _read_predictions(path: str) -> Any:
    """Return labels from lines; what follows a tab are decisions."""
    import numpy as np

    from vicinal.cli.data.labels import natural
    from vicinal.cli.data.streams import source, title
    from vicinal.cli.data.text import blocks

    found: list[str] = []
    with source(path) as stream:
        for block in blocks(stream, title(path)):
            found += [line.split("\t", 1)[0].strip() for _, line in block.lines() if line.strip()]
    return natural(np.asarray(found, dtype=str))


def _warn_of_unknown(true: Any, classes: Any, data: str, model: str) -> None:
    """Warn if no prediction can be right, as other labels are meant."""
    import warnings

    import numpy as np

    from vicinal.cli.data.labels import comparable

    found, known = map(np.unique, comparable(true, classes))
    if not np.isin(found, known).any():
        warnings.warn(
            f"no label of {data} ({some([str(each) for each in found])}) is a class of {model}"
            f" ({some([str(each) for each in known])}).",
            stacklevel=2,
        )


def _scores(true: Any, predicted: Any) -> dict[str, Any]:
    import numpy as np
    from sklearn import metrics

    from vicinal.cli.data.labels import comparable

    true, predicted = comparable(true, predicted)
    classes = np.unique(np.concatenate([true, predicted]))
    confusion = metrics.confusion_matrix(true, predicted, labels=classes)
    precision, recall, _, support = metrics.precision_recall_fscore_support(
        true, predicted, labels=classes, zero_division=0.0
    )
    present = support > 0
    return {
        "points": len(true),
        "accuracy": metrics.accuracy_score(true, predicted),
        "balanced_accuracy": recall[present].mean(),
        "classes": [
            {"label": label, "precision": p, "recall": r, "points": int(n)}
            for label, p, r, n in zip(
                classes.tolist(), precision.tolist(), recall.tolist(), support, strict=True
            )
        ],
        "confusion": confusion.tolist(),
    }


def _show_scores(result: dict[str, Any]) -> None:
    show.pairs(
        {
            "points": result["points"],
            "accuracy": result["accuracy"],
            "balanced accuracy": result["balanced_accuracy"],
            "queries a second": result.get("queries_per_second"),
        }
    )
    classes = result["classes"]
    show.grid(
        ["class", "precision", "recall", "points"],
        [[str(c["label"]), c["precision"], c["recall"], c["points"]] for c in classes],
    )
    if len(classes) <= _SHOWN_CLASSES:
        names = [str(c["label"]) for c in classes]
        show.grid(
            ["true \\ predicted", *names],
            [[name, *row] for name, row in zip(names, result["confusion"], strict=True)],
        )
