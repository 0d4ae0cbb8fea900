"""Read sessions from Parquet, a row each. Needs the extra `corpus`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from unabridged.errors import NotInstalled
from unabridged.sessions import SessionFileError
from unabridged.text_tools import parse_json

PARQUET_SUFFIX = ".parquet"
_BATCH_ROWS = 16
"""Rows that are in memory at a time."""
_JSON_COLUMNS = ("messages", "input", "contents", "tools", "questions")
"""Columns that may hold JSON as a text."""


def read_row_groups(path: Path) -> list[tuple[int, int]]:
    """Return the number of the first row and the bytes, when read, of each group of rows in the file."""
    metadata = _open_parquet(path).metadata
    sizes = [metadata.row_group(group) for group in range(metadata.num_row_groups)]
    firsts = [sum(one.num_rows for one in sizes[:group]) for group in range(len(sizes))]
    return [(first, one.total_byte_size) for first, one in zip(firsts, sizes, strict=True)]


def read_rows(path: Path, group: int) -> Iterator[dict[str, Any]]:
    """Yield every row of a group as a line of JSON would have it: without what is null in a column."""
    for batch in _open_parquet(path).iter_batches(batch_size=_BATCH_ROWS, row_groups=[group]):
        for row in batch.to_pylist():
            yield {name: _decode_value(name, value) for name, value in row.items() if value is not None}


def _decode_value(name: str, value: Any) -> Any:
    if name in _JSON_COLUMNS and isinstance(value, str):
        return parse_json(value, value)  # of what is no JSON, who looks for messages says that there are none
    return _remove_nulls(value)


def _remove_nulls(value: Any) -> Any:
    """Leave out nulls at any depth: a column of structs has every field in every row."""
    if isinstance(value, dict):
        return {name: _remove_nulls(one) for name, one in value.items() if one is not None}
    return [_remove_nulls(one) for one in value] if isinstance(value, list) else value


def _open_parquet(path: Path) -> Any:
    try:
        from pyarrow import ArrowException  # noqa: PLC0415 - large, and an extra
        from pyarrow.parquet import ParquetFile  # noqa: PLC0415 - likewise
    except ImportError as error:
        raise NotInstalled("Parquet", "unabridged[corpus]", error) from error
    try:
        return ParquetFile(path)
    except (ArrowException, OSError) as error:
        raise SessionFileError(f"can't read {path} as Parquet: {' '.join(str(error).split())}") from error
