"""convert."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from vicinal.cli import options, show
from vicinal.cli.errors import UsageError
from vicinal.cli.formats import Format


def convert(
    source: Annotated[
        str, typer.Argument(metavar="FROM", help="A model, or a data file ('-': standard input).")
    ],
    output: Annotated[
        str,
        typer.Argument(
            metavar="TO", help="MODEL.onnx, MODEL.c, or a data file; its ending says which."
        ),
    ],
    to: Annotated[
        Format | None, typer.Option("--to", help="Format of the data file TO, whatever its ending.")
    ] = None,
    target: options.TargetOption = None,
    format: options.FormatOption = None,
    header: options.HeaderOption = None,
    zero_based: options.ZeroBasedOption = False,
    json: options.JsonOption = False,
) -> None:
    """Turn a model into ONNX or C, or a data file into another format.

    Only ldkl models become C: functions called after the file, which scale queries themselves.

    A data file is held in memory meanwhile. In CSV, TSV and Parquet the labels become the last
    column, below names; svmlight and NPZ have no names of features.
    """
    from vicinal.cli.data.streams import check_not_input, ending

    check_not_input(output, source)
    if ending(output) == ".onnx":
        result = _to_onnx(source, output)
    elif ending(output) == ".c":
        result = _to_c(source, output)
    else:
        result = _to_data(source, output, to, format, target, zero_based, header)
    if json:
        show.emit(result)
    elif output != "-":
        show.pairs(result)


def _to_onnx(source: str, output: str) -> dict[str, object]:
    from vicinal.cli.data.streams import sink
    from vicinal.cli.models import load
    from vicinal.io.onnx import to_onnx

    graph = to_onnx(load(source, jobs=1)).SerializeToString()
    with sink(output) as stream:
        stream.write(graph)
    return {"model": source, "onnx": output, "bytes": len(graph)}


def _to_c(source: str, output: str) -> dict[str, object]:
    from vicinal.cli.data.streams import sink
    from vicinal.cli.models import last_step, load

    model = load(source, jobs=1)
    estimator = last_step(model)
    if not hasattr(estimator, "to_c"):
        raise UsageError(f"{source} is a {type(estimator).__name__}, and only ldkl becomes C.")
    name = re.sub(r"\W", "_", Path(output).stem, flags=re.ASCII)
    name = name if name[:1].isalpha() else f"m_{name}"
    scaler = model[:-1] if model is not estimator else None
    code = estimator.to_c(name, scaler=scaler).encode("ascii")
    with sink(output) as stream:
        stream.write(code)
    return {"model": source, "c": output, "functions": f"{name}_*", "bytes": len(code)}


def _to_data(
    source: str,
    output: str,
    to: Format | None,
    format: Format | None,
    target: str | None,
    zero_based: bool,
    header: bool | None,
) -> dict[str, object]:
    from vicinal.cli.data import data_file, write
    from vicinal.cli.data.streams import check_folder

    check_folder(output)
    data = data_file(source, format, target, zero_based, header).read()
    write(output, to, data)
    return {"data": output, "points": len(data.X), "features": data.X.shape[1]}
