"""The text format of LIBSVM and SVMlight: a label and `index:value` pairs on each line.

scikit-learn reads it. Where pyarrow is there and a block is nothing but labels and pairs, pyarrow's
CSV reader does so several times faster, and with all cores.
"""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

from vicinal.cli.data.arrow import arrow_csv, held_by_arrow, pyarrow
from vicinal.cli.data.batch import Batch, Layout
from vicinal.cli.data.labels import natural
from vicinal.cli.data.streams import Stream, source, title
from vicinal.cli.data.text import Block, blocks
from vicinal.cli.errors import DataError


def batches(path: str, layout: Layout) -> Iterator[Batch]:
    """Read a file block by block; each batch is as wide as its last feature."""
    with source(path) as stream:
        for block in blocks(stream, title(path)):
            batch = parse(block, layout)
            if batch.X.shape[0]:
                yield batch


def parse(block: Block, layout: Layout) -> Batch:
    """Return the rows of a block, as a sparse array."""
    try:
        batch = _parse_fast(block.text, layout.zero_based) or _parse(block.text, layout.zero_based)
    except ValueError as error:
        raise _located(block, layout) or DataError(f"{block.name}: {error}") from error
    assert batch.y is not None
    if b"_" in block.text and (problem := _located(block, layout)):  # float() takes 1_000
        raise problem
    finite = np.isfinite(batch.X.data).all() and np.isfinite(batch.y).all()
    fits = layout.n_features is None or batch.X.shape[1] <= layout.n_features
    if not (finite and fits) and (problem := _located(block, layout)):
        raise problem
    return batch


def _parse(text: bytes, zero_based: bool) -> Batch:
    X, y = load_svmlight_file(BytesIO(text), zero_based=zero_based)
    return Batch(csr_array(X), y)


_LABEL = -1
"""The index that a label gets, so that it is a pair as all others; no feature can have it."""

_SPACES_TO_LINES = bytes.maketrans(b" \t", b"\n\n")


def _parse_fast(text: bytes, zero_based: bool) -> Batch | None:
    """Read labels and pairs as the rows of a table of two columns; None if there is more."""
    lines = text.rstrip()
    if pyarrow is None or not lines or b"x" in lines.lower():
        return None  # pyarrow takes 0x1 for an index, and nobody else does
    pairs = b"-1:" + lines.replace(b"\n", b"\n-1:")
    pairs = pairs.replace(b"-1:+", b"-1:")  # "+1" is a label as good as "1"
    try:
        table = arrow_csv.read_csv(
            held_by_arrow(pairs.translate(_SPACES_TO_LINES)),
            read_options=arrow_csv.ReadOptions(column_names=["index", "value"]),
            parse_options=arrow_csv.ParseOptions(delimiter=":", quote_char=False),
            convert_options=arrow_csv.ConvertOptions(
                column_types={"index": pyarrow.int32(), "value": pyarrow.float64()},
                null_values=[],
            ),
        )
    except pyarrow.ArrowInvalid:
        return None  # a comment, a query, an empty line, or what is wrong
    return _from_pairs(
        table["index"].to_numpy(), table["value"].to_numpy(), lines.count(b"\n") + 1, zero_based
    )


def _from_pairs(
    index: NDArray[np.int32], value: NDArray[np.float64], n_rows: int, zero_based: bool
) -> Batch | None:
    is_label = index == _LABEL
    starts = np.flatnonzero(is_label)
    ascending = (np.diff(index) > 0) | is_label[1:]
    first = 0 if zero_based else 1
    features = index[~is_label] - first
    if len(starts) != n_rows or not ascending.all() or (features < 0).any():
        return None
    ends = np.append(starts[1:], len(index)) - np.arange(1, n_rows + 1)
    width = int(features.max(initial=0)) + 1
    X = csr_array((value[~is_label], features, np.concatenate([[0], ends])), shape=(n_rows, width))
    return Batch(X, value[starts])


def _located(block: Block, layout: Layout) -> DataError | None:
    """Find the first thing that is wrong, slowly; columns are what spaces separate."""
    for number, line in block.lines():
        fields = line.split("#", 1)[0].split()
        if fields and (problem := _problem(fields, layout)):
            column, what = problem
            if "," in line or ";" in line:
                what += " (is this CSV? Then say --format csv)"
            return DataError.at(block.name, what, line=number, column=column)
    return None


def _problem(fields: list[str], layout: Layout) -> tuple[int, str] | None:
    """Return column and description of what is wrong in one line."""
    if not _is_number(fields[0]):
        return 1, f"the label {fields[0]!r} is no number; files of other formats may have names"
    previous = -1
    for column, field in enumerate(fields[1:], 2):
        index, colon, value = field.partition(":")
        if column == 2 and index == "qid":
            continue
        if not colon or not index.isdecimal():
            return column, f"{field!r} is no pair index:value"
        if not _is_number(value):
            return column, f"the value of {field!r} is no finite number"
        if int(index) == 0 and not layout.zero_based:
            return column, "feature 0: indices count from 1, or say --zero-based"
        if int(index) <= previous:
            return column, f"feature {index} follows feature {previous}: indices must ascend"
        if layout.n_features is not None:
            largest = layout.n_features - layout.zero_based
            if int(index) > largest:
                return column, f"feature {index} is unknown to the model, whose last is {largest}"
        previous = int(index)
    return None


def _is_number(text: str) -> bool:
    try:
        return "_" not in text and isfinite(float(text))
    except ValueError:
        return False


def write(stream: Stream, X: NDArray[Any], y: NDArray[Any], names: list[str], target: str) -> None:
    """Write all rows; indices count from 1, and the format has no room for names."""
    labels = natural(y)
    if labels.dtype.kind == "U":
        raise DataError(
            f"svmlight files hold labels that are numbers, and {str(labels[0])!r} is none: choose"
            " another format."
        )
    dump_svmlight_file(X, labels, stream, zero_based=False)
