"""Every example that a person can copy runs: docstrings of the installed package, the README."""

import doctest
import importlib
import pkgutil
import re
from pathlib import Path

import pytest

import vicinal

README = Path(__file__).parents[1] / "README.md"

MODULES = ["vicinal"] + [
    found.name
    for found in pkgutil.walk_packages(vicinal.__path__, "vicinal.")
    if "._core_" not in found.name
]


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples(name):
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    outcome = doctest.testmod(importlib.import_module(name), optionflags=flags)
    assert outcome.failed == 0


def test_readme_examples(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    assert blocks
    names: dict[str, object] = {}
    for block in blocks:
        exec(block, names)
