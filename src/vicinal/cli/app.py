"""The commands, put together."""

from __future__ import annotations

from typing import Annotated

import typer

from vicinal.cli.commands import convert, evaluate, learn, look, predict

app = typer.Typer(
    name="vicinal",
    help="Local kernel machines: train on millions of points, predict, and look inside.",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

for command in (
    learn.train,
    predict.predict,
    learn.tune,
    evaluate.evaluate,
    look.info,
    look.report,
    convert.convert,
    look.demo,
):
    app.command(epilog="Exit codes: 0 done, 1 failed, 2 wrong use, 130 interrupted.")(command)


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        print(f"vicinal {version('vicinal')}")
        raise typer.Exit


@app.callback()
def vicinal(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show where an error came from; after a command, too.")
    ] = False,
) -> None:
    """Train, predict and look inside local kernel machines."""
