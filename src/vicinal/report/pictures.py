"""Pictures of a page: SVG inside it, with the letters and lines of the page's own colour."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from html import escape
from io import StringIO
from typing import TYPE_CHECKING, Any

from vicinal.inspection.drawing import need

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_STYLE: dict[str, Any] = {"font.size": 11, "svg.fonttype": "none", "image.composite_image": False}
WIDTH = 4.5
"""Inches: letters stay readable when a phone shrinks the picture to its own width."""


@dataclass(frozen=True)
class Picture:
    """A figure, what it shows in words, and what is said below it."""

    figure: Figure
    alt: str
    caption: str


@contextmanager
def page_style() -> Iterator[None]:
    """Draw for a page: black, which becomes the page's colour, and letters large enough."""
    from matplotlib import rc_context

    need("pyplot")
    with rc_context():
        need("style").use(["default", _STYLE])
        yield


def new_figure(height: float) -> Figure:
    """Return a figure of the width of a page's pictures, which no window shows."""
    figure: Figure = need("figure").Figure(figsize=(WIDTH, height), layout="constrained")
    return figure


def as_svg(picture: Picture) -> str:
    """Return a picture as an element of a page."""
    text = StringIO()
    metadata: Any = dict.fromkeys(["Creator", "Date", "Format", "Type"])
    with page_style():
        picture.figure.savefig(text, format="svg", transparent=True, dpi=150, metadata=metadata)
    svg = text.getvalue()
    svg = svg[svg.index("<svg") :].strip()
    svg = svg.replace(": #000000", ": currentColor")
    # Groups are numbered in each picture anew, and names in a page must be different.
    svg = re.sub(r'<g id="[^"]*"', "<g", svg)
    label = f'role="img" aria-label="{escape(picture.alt)}" fill="currentColor"'
    return svg.replace("<svg", f"<svg {label}", 1)
