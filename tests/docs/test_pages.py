"""Every snippet and command of the pages runs, and the reference names everything that is public.

The tests of an installed package have no docs beside them: then there is nothing to check.
"""

import doctest
import re
import shlex
from pathlib import Path

import pytest

import vicinal
from vicinal.cli import main

DOCS = Path(__file__).parents[2] / "docs"
MADE = {"_build", "auto_gallery", "generated"}
PAGES = [
    page
    for page in sorted(DOCS.rglob("*.rst"))
    if not MADE & set(page.relative_to(DOCS).parts) and ">>>" in page.read_text(encoding="utf-8")
]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(DOCS).as_posix())
def test_snippets(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    outcome = doctest.testfile(
        str(page), module_relative=False, optionflags=flags, encoding="utf-8"
    )
    assert outcome.attempted > 0
    assert outcome.failed == 0
    for command in re.findall(r"^ +\$ vicinal (.+)$", page.read_text(encoding="utf-8"), re.M):
        assert main(shlex.split(command)) == 0, command


@pytest.mark.skipif(not DOCS.is_dir(), reason="an installed package has no docs")
def test_the_reference_is_complete():
    listed = (DOCS / "api.rst").read_text(encoding="utf-8").split()
    assert set(vicinal.__all__) <= set(listed)
