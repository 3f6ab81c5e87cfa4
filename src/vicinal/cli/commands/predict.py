"""predict."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Annotated, Any

import typer

from vicinal.cli import options, show


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
    header: options.HeaderOption = None,
    zero_based: options.ZeroBasedOption = False,
    jobs: options.JobsOption = -1,
    json: options.JsonOption = False,
) -> None:
    """Predict the label of each row of DATA, one a line.

    A column of labels may be there or not. A model that was trained with names of columns finds its
    features by name, and does without the others. Rows are read, predicted and written piece by
    piece, so that a file may be larger than memory.
    """
    from vicinal.cli.data import data_file
    from vicinal.cli.data.streams import STANDARD, check_not_input, sink
    from vicinal.cli.predictor import Predictor

    check_not_input(output, data, model)
    file = data_file(data, format, target, zero_based, header)
    predictor = Predictor(model, file, jobs=jobs, decision=decision, labels=False)
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


def _lines(labels: list[str], decisions: Any) -> bytes:
    if decisions is None:
        return "".join(f"{label}\n" for label in labels).encode()
    rows = decisions.reshape(len(labels), -1).tolist()
    lines = ("\t".join([label, *map(repr, row)]) for label, row in zip(labels, rows, strict=True))
    return "".join(f"{line}\n" for line in lines).encode()
