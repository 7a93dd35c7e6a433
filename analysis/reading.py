"""Tables of a run from disk: CSV that may have been cut short by a kill, gzip or not, parquet beside it."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
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
    "category": pa.dictionary(pa.int32(), pa.string()),
    "int8": pa.int8(),
    "int32": pa.int32(),
    "Int32": pa.int32(),
    "int64": pa.int64(),
    "Int64": pa.int64(),
    "float32": pa.float32(),
    "float64": pa.float64(),
}
BLOCK_BYTES = 32 * 2**20
BATCH_ROWS = 1_000_000
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
    coded = [column for column, kind in wanted.items() if kind == "category"]
    return papq.read_table(
        path, columns=[column for column in wanted if column in there], read_dictionary=coded
    )


def _csv(path: Path, types: dict[str, str], wanted: dict[str, str]) -> pa.Table:
    if path.stat().st_size == 0:
        return pa.table({})
    try:
        return pacsv.read_csv(path, **_options(path, types, list(wanted)))
    except pa.ArrowInvalid as error:
        raise RunError(
            f"{path}: not the table expected ({_first_line(error)}); remove or mend that line"
        ) from None


def _options(path: Path, types: dict[str, str], wanted: list[str]) -> dict[str, Any]:
    """For arrow's CSV reader: our types, only the columns wanted, and no line that was cut short."""
    there = set(_header(path))
    convert = pacsv.ConvertOptions(
        column_types={column: _ARROW[kind] for column, kind in types.items()},
        include_columns=[column for column in wanted if column in there],
        strings_can_be_null=True,
        quoted_strings_can_be_null=True,
    )
    parse = pacsv.ParseOptions(newlines_in_values=True, invalid_row_handler=lambda row: "skip")
    read = pacsv.ReadOptions(block_size=BLOCK_BYTES)
    return {"read_options": read, "parse_options": parse, "convert_options": convert}


def batches(folder: Path, name: str, types: dict[str, str], columns: list[str]) -> Iterator[pa.RecordBatch]:
    """The table `name` piece by piece, for files that do not fit into memory; nothing if it is missing."""
    path = find(folder, name)
    if path is None or path.stat().st_size == 0:
        return
    if path.suffix == ".parquet":
        coded = [column for column in columns if types[column] == "category"]
        with papq.ParquetFile(path, read_dictionary=coded) as file:
            yield from file.iter_batches(batch_size=BATCH_ROWS, columns=columns)
        return
    try:
        with pacsv.open_csv(path, **_options(path, types, columns)) as pieces:
            yield from pieces
    except pa.ArrowInvalid as error:
        raise RunError(
            f"{path}: not the table expected ({_first_line(error)}); remove or mend that line"
        ) from None


def pack(folder: Path, name: str, types: dict[str, str]) -> Path | None:
    """Put a parquet copy beside the CSV file, reading it piece by piece; None if there is no such file.

    Readers prefer the copy as long as it is not older than the file.
    """
    path = find(folder, name)
    if path is None or path.suffix == ".parquet" or path.stat().st_size == 0:
        return path
    packed = folder / f"{name.removesuffix('.csv')}.parquet"
    unfinished = packed.with_suffix(".parquet.tmp")
    with (
        pacsv.open_csv(path, **_options(path, types, list(types))) as batches,
        papq.ParquetWriter(unfinished, batches.schema, compression="zstd") as writer,
    ):
        for batch in batches:
            writer.write_batch(batch)
    unfinished.replace(packed)
    return packed


def _header(path: Path) -> list[str]:
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as lines:
        return next(iter(lines), b"").decode().strip().split(",")


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0]


def _typed(table: pa.Table, wanted: dict[str, str]) -> pd.DataFrame:
    columns: dict[str, Any] = {}
    for column, kind in wanted.items():
        there = column in table.column_names
        values = table.column(column) if there else pa.nulls(table.num_rows, _ARROW[kind])
        if kind == "category":
            columns[column] = _category(values)
        elif kind == "string":
            columns[column] = values.fill_null("").to_pandas().astype("str")
        elif kind in _MUST_BE_THERE:
            columns[column] = values.fill_null(0).to_pandas().astype(kind)
        else:
            dtype: Any = kind
            columns[column] = values.to_pandas().astype(dtype)
        if there:
            table = table.drop_columns([column])  # so that no column is held twice
    return pd.DataFrame(columns, copy=False)


def _category(values: Any) -> pd.Series[Any]:
    if not pa.types.is_dictionary(values.type):
        values = values.cast(pa.string()).dictionary_encode()
    if isinstance(values, pa.ChunkedArray):
        values = values.unify_dictionaries()
    found: pd.Series[Any] = values.to_pandas()
    if not isinstance(found.dtype, pd.CategoricalDtype):
        found = found.astype("category")
    return found


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


def read_texts(folder: Path) -> dict[str, str]:
    """Reply by request out of an arm's texts.jsonl; a last line that was cut short is left out."""
    texts: dict[str, str] = {}
    path = find(folder, "texts.jsonl")
    if path:
        content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        for line in content.decode(errors="replace").splitlines():
            try:
                entry = json.loads(line)
            except ValueError:
                continue
            texts[str(entry["request"])] = str(entry["text"])
    return texts
