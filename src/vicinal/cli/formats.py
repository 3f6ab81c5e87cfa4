"""Names and endings of the data formats."""

from __future__ import annotations

from enum import StrEnum


class Format(StrEnum):
    """A format of data files."""

    SVMLIGHT = "svmlight"
    CSV = "csv"
    TSV = "tsv"
    NPZ = "npz"
    PARQUET = "parquet"


ENDINGS = {
    ".csv": Format.CSV,
    ".tsv": Format.TSV,
    ".tab": Format.TSV,
    ".npz": Format.NPZ,
    ".parquet": Format.PARQUET,
    ".pq": Format.PARQUET,
}
"""All others are svmlight: .svm, .libsvm, .svmlight, .txt, none, and standard input."""
