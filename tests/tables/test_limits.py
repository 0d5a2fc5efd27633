"""Small files that would take all memory: refused in a sentence that names the limit and the
variable that raises it.
"""

import gzip
import json
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from corank import RankRLS, scan
from corank.streaming.scan import usual_chunk_rows
from corank.tables import TableError, limits, read_table, with_zeros


def zipped(path, *blocks):
    with gzip.open(path, "wb") as file:
        for block in blocks:
            file.write(block)
    return path


def both(path):
    """How a table is read: whole, and in passes."""
    return [read_table] if ".jsonl" in path.name else [read_table, scan]


def refused(path, variable):
    for read in both(path):
        with pytest.raises(TableError, match=variable) as error:
            read(path)
        assert path.name in str(error.value)


def test_a_feature_with_a_huge_number_is_refused_also_in_a_folder(tmp_path):
    path = tmp_path / "rows.svm"
    path.write_text("1 qid:1 1000000000:1\n2 qid:1 3:1\n")
    refused(path, limits.MAX_COLUMNS.variable)
    with pytest.raises(TableError, match=limits.MAX_COLUMNS.variable):
        RankRLS().fit(scan(tmp_path, score="score"))


def test_a_number_of_a_feature_of_any_length(tmp_path):
    path = tmp_path / "rows.svm"
    path.write_text(f"1 {'9' * 5000}:1\n")
    refused(path, limits.MAX_COLUMNS.variable)


@pytest.mark.parametrize("name", ["rows.csv.gz", "rows.jsonl.gz", "rows.svm.gz"])
def test_a_compressed_file_that_grows_without_end(tmp_path, monkeypatch, name):
    monkeypatch.setattr(limits, "FREE_BYTES", 2**19)
    rows = {"rows.csv.gz": b"1,2\n", "rows.jsonl.gz": b'{"a": 1}\n', "rows.svm.gz": b"1 1:2\n"}[
        name
    ]
    path = zipped(tmp_path / name, b"a,b\n" if ".csv" in name else b"", rows * 200_000)
    with pytest.raises(TableError, match=limits.MAX_EXPANSION.variable):
        read_table(path)
    monkeypatch.setenv(limits.MAX_EXPANSION.variable, "100000")
    assert read_table(path).num_rows == 200_000


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("rows.csv", "a,b\n1,", "\n"),
        ("rows.csv", "a,b", "\n1,2\n"),
        ("rows.jsonl", '{"a":"', '"}\n'),
    ],
)
def test_a_line_without_end(tmp_path, monkeypatch, compressed, name, before, after):
    monkeypatch.setenv(limits.MAX_LINE_BYTES.variable, str(2**20))
    text = (before + "7" * 2**22 + after).encode()
    path = tmp_path / name
    path.write_bytes(text)
    refused(
        zipped(tmp_path / f"{name}.gz", text) if compressed else path,
        limits.MAX_LINE_BYTES.variable,
    )


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_more_columns_than_the_limit(tmp_path, monkeypatch, ending):
    path = tmp_path / f"wide.{ending}"
    columns = {f"column {number}": [1, 2] for number in range(50)}
    if ending == "csv":
        path.write_text("\n".join(",".join(map(str, row)) for row in (columns, [1] * 50, [2] * 50)))
    else:
        parquet.write_table(pa.table(columns), path)
    monkeypatch.setenv(limits.MAX_COLUMNS.variable, "49")
    refused(path, limits.MAX_COLUMNS.variable)
    monkeypatch.setenv(limits.MAX_COLUMNS.variable, "50")
    assert read_table(path).num_columns == 50


def test_a_million_columns_are_refused_by_their_header(tmp_path):
    path = tmp_path / "wide.csv"
    path.write_text(",".join(map(str, range(10**6))) + "\n" + "1," * (10**6 - 1) + "1\n")
    refused(path, limits.MAX_COLUMNS.variable)


def test_a_small_parquet_file_of_very_many_rows(tmp_path):
    path = tmp_path / "rows.parquet"
    parquet.write_table(pa.table({"a": pa.nulls(20_000_000, pa.int8())}), path)
    with pytest.raises(TableError, match=limits.MAX_EXPANSION.variable):
        read_table(path)


def test_json_lines_that_all_have_other_names(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(json.dumps({f"k{number}": 1}) for number in range(20_000)))
    with pytest.raises(TableError, match=limits.MAX_CELLS.variable):
        read_table(path)


def test_a_limit_that_is_no_number(tmp_path, monkeypatch):
    path = tmp_path / "rows.csv"
    path.write_text("a,b\n1,2\n")
    monkeypatch.setenv(limits.MAX_COLUMNS.variable, "many")
    with pytest.raises(ValueError, match=f"{limits.MAX_COLUMNS.variable}.*'many'"):
        read_table(path)


@pytest.mark.parametrize("n_columns", [1, 100, 10_000, 200_000, 10**7, 10**9])
def test_a_chunk_has_a_bounded_size(n_columns):
    rows = usual_chunk_rows(n_columns)
    assert rows == 1 or rows * n_columns * 8 <= 2**28


def test_absent_features_become_zeros(tmp_path):
    path = tmp_path / "rows.svm"
    path.write_text("1 2:5\n2 1:3\n")
    table = with_zeros(read_table(path), [str(number) for number in range(1, 5)])
    assert table.column_names == ["score", "1", "2", "3", "4"]
    assert table["4"].to_pylist() == [0.0, 0.0]


def test_the_documentation_names_every_limit_and_its_usual_value():
    page = (Path(__file__).parents[2] / "docs" / "limits.md").read_text(encoding="utf-8")
    for limit in (
        limits.MAX_COLUMNS,
        limits.MAX_CELLS,
        limits.MAX_LINE_BYTES,
        limits.MAX_EXPANSION,
        limits.MAX_ZEROS,
    ):
        assert f"| {limit.usual:,} | `{limit.variable}` |" in page


def test_a_long_line_far_down_is_refused_too(tmp_path, monkeypatch):
    monkeypatch.setenv("CORANK_MAX_LINE_BYTES", str(2**24))
    path = tmp_path / "long.csv"
    path.write_text("a,b\n" + "1,2\n" * 300 + "1," + "x" * 2**26 + "\n")
    with pytest.raises(
        TableError,
        match=(
            r"long.csv has a line of more than .*: if this is intended, set CORANK_MAX_LINE_BYTES"
        ),
    ):
        read_table(path)
