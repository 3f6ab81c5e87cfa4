"""predict and evaluate."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from time import perf_counter
from typing import Annotated, Any

import typer

from vicinal.cli import options, show
from vicinal.cli.errors import DataError, UsageError

_SHOWN_CLASSES = 12
"""A confusion matrix of more does not fit into a terminal."""


def predict(
    data: options.DataArgument,
    model: options.ModelOption,
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="OUT", help="Where the labels go.")
    ] = "-",
    decision: Annotated[
        bool,
        typer.Option(
            "--decision",
            help="Add the decision after each label: one number for two classes, positive for the"
            " second, else one for each; separated by tabs.",
        ),
    ] = False,
    target: options.TargetOption = None,
    format: options.FormatOption = None,
    zero_based: options.ZeroBasedOption = False,
    jobs: options.JobsOption = -1,
    json: options.JsonOption = False,
) -> None:
    """Predict the label of each row of DATA, one a line.

    A column of labels may be there or not. Rows are read, predicted and written piece by piece,
    so that a file may be larger than memory.
    """
    from vicinal.cli.data.streams import STANDARD, sink

    predictor = _Predictor(model, data, format, target, zero_based, jobs, decision)
    labels: list[Any] = []
    scores: list[Any] = []
    keep = json and output == STANDARD
    with ExitStack() as stack:
        done = stack.enter_context(
            show.progress_of_rows("predicted", to_terminal=output == STANDARD)
        )
        stream = None if keep else stack.enter_context(sink(output))
        for _, codes, decisions in predictor:
            if stream is not None:
                stream.write(_lines(predictor.texts[codes].tolist(), decisions))
            else:
                labels += predictor.classes[codes].tolist()
                scores += [] if decisions is None else decisions.tolist()
            done(len(codes))
    summary = {
        "points": predictor.n_points,
        "classes": predictor.classes,
        "seconds": predictor.seconds,
        "queries_per_second": predictor.rate,
    }
    if json:
        found = {"labels": labels, **({"decisions": scores} if decision else {})}
        show.emit({**summary, **(found if keep else {"output": output})})
    elif output != STANDARD:
        show.pairs(
            {
                "points": predictor.n_points,
                "predicting, s": predictor.seconds,
                "queries a second": predictor.rate,
                "labels": output,
            }
        )


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
    zero_based: options.ZeroBasedOption = False,
    jobs: options.JobsOption = -1,
    json: options.JsonOption = False,
) -> None:
    """Compare predictions with the true labels.

    vicinal evaluate test.csv -m MODEL predicts by itself;
    vicinal predict test.csv -m MODEL | vicinal evaluate - --labels test.csv takes what is there.
    """
    if (model is None) == (labels is None):
        raise UsageError("evaluate needs a model, -m MODEL, or true labels, --labels FILE.")
    rate = None
    if model is not None:
        predictor = _Predictor(model, data, format, target, zero_based, jobs, False)
        true, predicted = predictor.compared()
        rate = predictor.rate
    else:
        assert labels is not None
        if data == labels == "-":
            raise UsageError("predictions and true labels cannot both be standard input.")
        predicted = _read_predictions(data)
        true = _file(labels, format, target, zero_based).labels()
        if len(true) != len(predicted):
            raise DataError(f"{data} has {len(predicted)} labels, and {labels} has {len(true)}.")
    result = _scores(true, predicted)
    if rate is not None:
        result["queries_per_second"] = rate
    if json:
        show.emit(result)
    else:
        _show_scores(result)


class _Predictor:
    """Predicts a file batch by batch, and counts."""

    def __init__(
        self,
        model: str,
        data: str,
        format: Any,
        target: str | None,
        zero_based: bool,
        jobs: int,
        decision: bool,
    ) -> None:
        from vicinal.cli.data.labels import as_text, as_written
        from vicinal.cli.models import load

        self._model = load(model, jobs=jobs)
        if not hasattr(self._model, "classes_"):
            raise UsageError(f"{model} is no classifier.")
        self._file = _file(data, format, target, zero_based).for_model(self._model.n_features_in_)
        self._decide = _decision_of(self._model) if decision else None
        self.classes = as_written(self._model.classes_)
        self.texts = self.classes.astype(object)
        self.texts[:] = as_text(self._model.classes_)
        self.n_points = 0
        self.seconds = 0.0

    @property
    def rate(self) -> float | None:
        """Queries answered in a second, without the time for reading them."""
        return self.n_points / self.seconds if self.seconds else None

    def __iter__(self) -> Iterator[tuple[Any, Any, Any]]:
        """Yield batch, codes of the labels, and decisions."""
        from numpy import searchsorted

        from vicinal.local.votes import winners

        for batch in self._file.batches():
            begin = perf_counter()
            if self._decide is None:
                decisions = None
                codes = searchsorted(self._model.classes_, self._model.predict(batch.X))
            else:
                decisions = self._decide(batch.X)
                codes = winners(decisions)
            self.seconds += perf_counter() - begin
            self.n_points += len(codes)
            yield batch, codes, decisions

    def compared(self) -> tuple[Any, Any]:
        """Return true and predicted labels of the whole file."""
        from numpy import concatenate

        true, codes = [], []
        for batch, found, _ in self:
            if batch.y is None:
                raise DataError(f"{self._file.title} has no labels to compare with.")
            true.append(batch.y)
            codes.append(found)
        if not true:
            raise DataError(f"{self._file.title} is empty: it has no rows.")
        return concatenate(true), self.classes[concatenate(codes)]


def _decision_of(model: Any) -> Callable[[Any], Any]:
    for name in ("decision_function", "predict_proba"):
        if hasattr(model, name):
            return getattr(model, name)
    raise UsageError(f"--decision: {type(model).__name__} makes no decisions, only labels.")


def _file(data: str, format: Any, target: str | None, zero_based: bool) -> Any:
    from vicinal.cli.data import DataFile
    from vicinal.cli.data.batch import Layout

    return DataFile(data, format, Layout(target, zero_based))


def _lines(labels: list[str], decisions: Any) -> bytes:
    if decisions is None:
        return "".join(f"{label}\n" for label in labels).encode()
    rows = decisions.reshape(len(labels), -1).tolist()
    lines = ("\t".join([label, *map(repr, row)]) for label, row in zip(labels, rows, strict=True))
    return "".join(f"{line}\n" for line in lines).encode()


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
