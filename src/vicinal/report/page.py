"""One HTML file of text, tables and pictures. It loads nothing, and opens without a network."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from html import escape
from numbers import Integral, Real
from pathlib import Path
from typing import Any, Self

import numpy as np

from vicinal.report.pictures import Picture, as_svg
from vicinal.report.template import PAGE


class Page:
    """A page in the making. Whatever text it is given appears as it is: all of it is escaped.

    Parameters
    ----------
    title : str
    lead : str, default=""
        What the page says first.
    footer : str, default=""

    Examples
    --------
    >>> from vicinal.report import Page
    >>> page = Page("Two machines").section("Which").text("The first & the second.")
    >>> "The first &amp; the second." in page.html()
    True
    """

    def __init__(self, title: str, lead: str = "", footer: str = "") -> None:
        self.title = title
        self.lead = lead
        self.footer = footer
        self._sections: list[list[str]] = []

    def section(self, heading: str) -> Self:
        """Begin a section: what is added next belongs to it."""
        self._sections.append([f"<h2>{escape(heading)}</h2>"])
        return self

    def text(self, text: str) -> Self:
        """Add a paragraph."""
        return self._add(f"<p>{escape(text)}</p>")

    def table(
        self,
        columns: Mapping[str, str],
        rows: Sequence[Mapping[str, Any]],
        *,
        caption: str,
        formats: Mapping[str, str | Callable[[Any], str]] | None = None,
        strong: Collection[int] = (),
    ) -> Self:
        """Add a table.

        Parameters
        ----------
        columns : dict
            From keys of the rows to headings, in order.
        rows : sequence of dict
            A None leaves a cell empty.
        caption : str
        formats : dict, default=None
            Format specifications of some columns, such as ".2f" or ".1%", or functions.
        strong : collection of int, default=()
            The rows to emphasise.
        """
        formats = formats or {}
        head = "".join(
            f'<th scope="col"{_alignment([row.get(key) for row in rows])}>{escape(heading)}</th>'
            for key, heading in columns.items()
        )
        lines = []
        for number, row in enumerate(rows):
            cells = "".join(_cell(row.get(key), formats.get(key)) for key in columns)
            kind = ' class="strong"' if number in strong else ""
            lines.append(f"<tr{kind}>{cells}</tr>")
        body = "\n".join(lines)
        # On a narrow screen the table scrolls and the page does not, by keyboard too.
        return self._add(
            f'<div class="scroll" role="region" aria-label="{escape(caption)}" tabindex="0">\n'
            f"<table>\n<caption>{escape(caption)}</caption>\n"
            f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>\n</div>"
        )

    def pictures(self, *pictures: Picture) -> Self:
        """Add pictures, side by side where there is room."""
        figures = "\n".join(
            f"<figure>\n{as_svg(picture)}\n<figcaption>{escape(picture.caption)}</figcaption>\n"
            "</figure>"
            for picture in pictures
        )
        return self._add(f'<div class="pictures">\n{figures}\n</div>')

    def html(self) -> str:
        """Return the page."""
        return PAGE.substitute(
            title=escape(self.title),
            lead=f'<p class="lead">{escape(self.lead)}</p>' if self.lead else "",
            sections="\n".join(
                "<section>\n" + "\n".join(parts) + "\n</section>" for parts in self._sections
            ),
            footer=escape(self.footer),
        )

    def write(self, path: str | Path) -> Path:
        """Write the page to a file and return its path."""
        path = Path(path)
        path.write_text(self.html(), encoding="utf-8")
        return path

    def _add(self, part: str) -> Self:
        if not self._sections:
            self._sections.append([])
        self._sections[-1].append(part)
        return self


def percent(share: float, digits: int = 2) -> str:
    """Write a share as a percentage."""
    return f"{100 * share:.{digits}f}\N{NO-BREAK SPACE}%"


def three_digits(value: float) -> str:
    """Write a measurement with three significant digits, and without an exponent.

    >>> [three_digits(seconds) for seconds in (0.0016, 0.5, 12.345, 1234.5)]
    ['0.0016', '0.5', '12.3', '1,234']
    """
    if value >= 100:
        return f"{value:,.0f}"
    return np.format_float_positional(value, precision=3, fractional=False, trim="-")


def _cell(value: Any, form: str | Callable[[Any], str] | None) -> str:
    return f"<td{_alignment([value])}>{escape(_written(value, form))}</td>"


def _alignment(values: Sequence[Any]) -> str:
    present = [value for value in values if value is not None]
    return ' class="number"' if present and all(map(_is_number, present)) else ""


def _written(value: Any, form: str | Callable[[Any], str] | None) -> str:
    if value is None:
        return ""
    if callable(form):
        return form(value)
    if form is not None and _is_number(value):
        return format(value, form).replace("%", "\N{NO-BREAK SPACE}%")
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Integral):
        return f"{int(value):,}"
    if isinstance(value, Real):
        return f"{float(value):g}"
    return str(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)
