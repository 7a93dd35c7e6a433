"""Tables of a run from disk: CSV that may have been cut short by a kill, gzip or not, parquet beside it."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as papq


class RunError(ValueError):
    """A run's folder cannot be used; the message is one line: what, where, how to mend it."""


_ARROW = {
    "string": pa.string(),
    "int8": pa.int8(),
    "int32": pa.int32(),
    "Int32": pa.int32(),
    "int64": pa.int64(),
    "Int64": pa.int64(),
    "float32": pa.float32(),
    "float64": pa.float64(),
}
_MUST_BE_THERE = ("int8", "int32", "int64")


def find(folder: Path, name: str) -> Path | None:
    """The file of that name in `folder`: its parquet copy if that is newer, else plain, else gzip."""
    plain = [path for path in (folder / name, folder / f"{name}.gz") if path.exists()]
    parquet = folder / f"{name.removesuffix('.csv')}.parquet"
    if parquet.exists() and all(parquet.stat().st_mtime >= path.stat().st_mtime for path in plain):
        return parquet
    return plain[0] if plain else None


def read_table(
    folder: Path, name: str, types: dict[str, str], columns: list[str] | None = None
) -> pd.DataFrame:
    """The table `name` of an arm's folder with exactly the columns of `types` (or those asked for).

    A missing file gives an empty table; a column that the file lacks is empty. A last line that was cut
    short is left out, because the writer was killed while it wrote it.
    """
    wanted = {column: types[column] for column in (columns or list(types))}
    path = find(folder, name)
    if path is None:
        return pd.DataFrame({column: pd.Series(dtype=kind) for column, kind in wanted.items()})
    table = _parquet(path, wanted) if path.suffix == ".parquet" else _csv(path, types, wanted)
    return _typed(table, wanted)


def _parquet(path: Path, wanted: dict[str, str]) -> pa.Table:
    there = set(papq.read_schema(path).names)
    return papq.read_table(path, columns=[column for column in wanted if column in there])


def _csv(path: Path, types: dict[str, str], wanted: dict[str, str]) -> pa.Table:
    if path.stat().st_size == 0:
        return pa.table({})
    skip_cut_lines = pacsv.ParseOptions(newlines_in_values=True, invalid_row_handler=lambda row: "skip")
    header = _header(path)
    convert = pacsv.ConvertOptions(
        column_types={column: _ARROW[kind] for column, kind in types.items()},
        include_columns=[column for column in wanted if column in header],
        auto_dict_encode=False,
        strings_can_be_null=True,
        quoted_strings_can_be_null=True,
    )
    try:
        return pacsv.read_csv(path, parse_options=skip_cut_lines, convert_options=convert)
    except pa.ArrowInvalid as error:
        raise RunError(
            f"{path}: not the table expected ({_first_line(error)}); remove or mend that line"
        ) from None


def _header(path: Path) -> list[str]:
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as lines:
        return next(iter(lines), b"").decode().strip().split(",")


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0]


def _typed(table: pa.Table, wanted: dict[str, str]) -> pd.DataFrame:
    columns: dict[str, Any] = {}
    for column, kind in wanted.items():
        empty: Any = "" if kind == "string" else 0 if kind in _MUST_BE_THERE else None
        if column in table.column_names:
            values = table.column(column).to_pandas()
        else:
            values = pd.Series([None] * table.num_rows, dtype="object")
        dtype: Any = "str" if kind == "string" else kind
        columns[column] = values.astype(dtype) if empty is None else values.fillna(empty).astype(dtype)
    return pd.DataFrame(columns)


def read_json(path: Path, required: bool = False) -> dict[str, Any]:
    """The JSON object in `path`; {} if there is none, RunError if it is not readable or was required."""
    if not path.exists():
        if required:
            raise RunError(f"{path}: not there; give the folder of a run, as results/demo")
        return {}
    try:
        value = json.loads(path.read_text())
    except ValueError as error:
        raise RunError(f"{path}: not JSON ({error}); the run's file is damaged") from None
    if not isinstance(value, dict):
        raise RunError(f"{path}: holds no JSON object; the run's file is damaged")
    return value


def read_texts(path: Path) -> dict[str, str]:
    """Reply by request out of a file of JSON lines; a last line that was cut short is left out."""
    texts: dict[str, str] = {}
    if path.exists():
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            try:
                entry = json.loads(line)
            except ValueError:
                continue
            texts[str(entry["request"])] = str(entry["text"])
    return texts
