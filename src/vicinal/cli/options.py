"""Options and arguments that several commands share."""

from __future__ import annotations

from typing import Annotated

import typer

from vicinal.cli.formats import Format
from vicinal.cli.models import MODELS, SCALERS

_COMPRESSED = "with .gz, .bz2, .xz or .zst after it, compressed"


def _some_threads(jobs: int) -> int:
    if jobs == 0:
        raise typer.BadParameter("0 threads do nothing; -1 takes all cores.")
    return jobs


DataArgument = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="Data file, by its ending: .csv .tsv .npz .parquet, all else svmlight;"
        f" {_COMPRESSED}. '-' is standard input.",
    ),
]
FormatOption = Annotated[
    Format | None, typer.Option("--format", help="Format of DATA, whatever its ending.")
]
TargetOption = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN",
        help="Column of the labels in CSV, TSV and Parquet, by name or by number from 1."
        " Default: the last, or the only one that is no feature of a model trained with names.",
    ),
]
HeaderOption = Annotated[
    bool | None,
    typer.Option(
        "--header/--no-header",
        help="Line 1 of CSV and TSV has the names of the columns, or not. Default: it has if a"
        " column begins with text there and goes on with a number.",
    ),
]
ZeroBasedOption = Annotated[
    bool, typer.Option("--zero-based", help="Features of svmlight files count from 0, not 1.")
]
ModelOption = Annotated[
    str, typer.Option("--model", "-m", metavar="MODEL", help="A model that train has saved.")
]
KindOption = Annotated[str, typer.Option("--model", help=f"One of {', '.join(MODELS)}.")]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="A parameter of the model, such as n_neighbors=1000; again for each."
        " Values are numbers, lists, true, false, none, or text.",
    ),
]
ScaleOption = Annotated[
    str,
    typer.Option(help=f"How features are scaled, one of {', '.join(SCALERS)}; saved with it."),
]
JobsOption = Annotated[
    int, typer.Option(callback=_some_threads, help="Threads; -1 takes all cores.")
]
SeedOption = Annotated[int | None, typer.Option(help="For what is drawn at random.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object, for scripts.")]
