"""Run one benchmark: python benchmarks/run.py NAME [--data DIR] [--json] [--quick]."""

from __future__ import annotations

import argparse
import ast
import importlib
import sys
from pathlib import Path

from common import Config, DataAbsent, Row, Table, as_json, store

HERE = Path(__file__).parent


def benchmarks() -> dict[str, str]:
    """Name and claim of every benchmark, read without importing it or what it compares with."""
    claims = {}
    for path in sorted(HERE.glob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        if any(isinstance(part, ast.FunctionDef) and part.name == "rows" for part in tree.body):
            claims[path.stem] = (ast.get_docstring(tree) or "").partition("\n")[0]
    return claims


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure one claim about vicinal.")
    parser.add_argument("name", nargs="?", help="which benchmark to run")
    parser.add_argument("--list", action="store_true", help="name every benchmark and its claim")
    parser.add_argument("--json", action="store_true", help="print one JSON object per line")
    parser.add_argument("--data", type=Path, metavar="DIR", help="folder of NAME.npz data files")
    parser.add_argument("--quick", action="store_true", help="little data, nothing stored")
    parser.add_argument("--n-jobs", type=int, default=Config.n_jobs, help="cores to use (all)")
    parser.add_argument("--repeats", type=int, default=Config.repeats, help="runs to time (3)")
    asked = parser.parse_args()
    if not asked.list and asked.name not in (known := benchmarks()):
        names = ", ".join(known) or "none yet"
        parser.error(f"give the name of a benchmark ({names}), or --list")
    return asked


def main() -> int:
    asked = arguments()
    claims = benchmarks()
    if asked.list:
        width = max(map(len, claims), default=0)
        for name, claim in claims.items():
            print(f"{name:<{width}}  {claim}")
        return 0

    config = Config(asked.data, asked.quick, asked.n_jobs, asked.repeats)
    table = Table()
    found: list[Row] = []
    if not asked.json:
        print(claims[asked.name], end="\n\n")
    try:
        for row in importlib.import_module(asked.name).rows(config):
            found.append(row)
            if asked.json:
                print(as_json({"benchmark": asked.name, **row}), flush=True)
            else:
                table.add(row)
            if not config.quick:
                store(asked.name, claims[asked.name], found)
    except DataAbsent as problem:
        print(f"{asked.name}: {problem}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
