"""The directive `command-help`: what `vicinal --help` says of itself and of every command."""

from __future__ import annotations

import io
from contextlib import redirect_stdout
from typing import Any
from unittest.mock import patch

import typer
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from vicinal.cli import main
from vicinal.cli.app import app


class CommandHelp(SphinxDirective):
    """Has no arguments: it asks the command line."""

    def run(self) -> list[nodes.Node]:
        names = typer.main.get_command(app).list_commands(None)
        return [help_of(), *(section(name) for name in names)]


def section(name: str) -> nodes.section:
    title = f"vicinal {name}"
    content = nodes.section(ids=[nodes.make_id(title)], names=[title])
    content += nodes.title("", title)
    content += help_of(name)
    return content


def help_of(*command: str) -> nodes.literal_block:
    told = io.StringIO()
    with redirect_stdout(told), patch.dict("os.environ", COLUMNS="72"):
        main([*command, "--help"])
    text = told.getvalue().strip()
    return nodes.literal_block(text, text, language="text")


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_directive("command-help", CommandHelp)
    return {"version": "1", "parallel_read_safe": True}
