"""Tables on disk and columns: what `corank.tables` promises."""

import contextlib
import datetime as dt
import gzip
import stat
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from corank import scan
from corank.tables import (
    MISSING,
    TableError,
    TableFile,
    check_target,
    column,
    ending_of,
    query_column,
    read_table,
    score_column,
    to_arrow,
    with_zeros,
    write_table,
)
from corank.tables.read import PARSED_AT_ONCE

in_one_folder = settings(
    deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def written(folder: Path, name: str, content: bytes | str) -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


# ---- reading


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", "x,y\n1,one\n2.5,two\n"),
        ("a.csv", "x;y\n1;one\n2.5;two\n"),
        ("a.csv", "x;y\n1;one\n2,5;two\n"),
        ("a.csv", "x\ty\n1\tone\n2.5\ttwo\n"),
        ("a.csv", "x,y\r\n1,one\r\n2.5,two"),
        ("a.csv", "\n\nx,y\n\n1,one\n\n2.5,two\n\n"),
        ("a.csv", "\ufeffx,y\n1,one\n2.5,two\n"),
        ("a.csv", '"x","y"\n"1","one"\n"2.5","two"\n'),
        ("A.CSV", "x,y\n1,one\n2.5,two\n"),
        ("a.tsv", "x\ty\n1\tone\n2.5\ttwo\n"),
        ("a.txt", "x\ty\n1\tone\n2.5\ttwo\n"),
        ("a.txt", "x,y\n1,one\n2.5,two\n"),
        ("a.csv.gz", gzip.compress(b"x,y\n1,one\n2.5,two\n", mtime=0)),
        ("a.tsv.GZ", gzip.compress(b"x\ty\n1\tone\n2.5\ttwo\n", mtime=0)),
    ],
)
def test_separated_files_are_read_by_ending_and_header(
    tmp_path: Path, name: str, content: bytes | str
) -> None:
    table = read_table(written(tmp_path, name, content))
    assert table.to_pydict() == {"x": [1.0, 2.5], "y": ["one", "two"]}


@pytest.mark.parametrize("name", ["a.parquet", "a.pq"])
def test_parquet_is_read_as_it_is(tmp_path: Path, name: str) -> None:
    table = pa.table({"x": [1, None], "y": ["one", "NA"]})
    parquet.write_table(table, tmp_path / name)
    assert read_table(str(tmp_path / name)).equals(table)


def test_a_folder_called_like_a_partition_adds_no_column(tmp_path: Path) -> None:
    folder = tmp_path / "year=2020"
    folder.mkdir()
    parquet.write_table(pa.table({"x": [1]}), folder / "a.parquet")
    assert read_table(folder / "a.parquet").column_names == ["x"]


def test_usual_marks_of_missing_values_are_missing(tmp_path: Path) -> None:
    rows = "".join(f"{mark},{mark}\n" for mark in MISSING)
    table = read_table(written(tmp_path, "a.csv", f"number,text\n1,x\n{rows}"))
    assert table["number"].to_pylist() == [1] + [None] * len(MISSING)
    assert table["text"].to_pylist() == ["x"] + [None] * len(MISSING)


@pytest.mark.parametrize("word", ["unknown", "nil", "--", "-1"])
def test_other_words_are_not_missing(tmp_path: Path, word: str) -> None:
    assert read_table(written(tmp_path, "a.csv", f"x,y\n{word},3\n"), text=["x"])[
        "x"
    ].to_pylist() == [word]


def test_a_blank_line_in_a_table_of_one_column_is_a_missing_value(tmp_path: Path) -> None:
    assert read_table(written(tmp_path, "a.csv", "\nscore\n1\n\n3\n"))["score"].to_pylist() == [
        1,
        None,
        3,
    ]


def test_columns_named_as_text_stay_text(tmp_path: Path) -> None:
    path = written(tmp_path, "a.csv", "user,price,day\n007,1,2020-01-01\n7,2,2020-01-02\n")
    table = read_table(path, text=["user", "day", "not there"])
    assert table["user"].to_pylist() == ["007", "7"]
    assert table["day"].to_pylist() == ["2020-01-01", "2020-01-02"]
    assert table["price"].to_pylist() == [1, 2]
    assert read_table(path, text="user")["user"].to_pylist() == ["007", "7"]


def test_a_comma_in_a_quoted_name_does_not_separate(tmp_path: Path) -> None:
    table = read_table(written(tmp_path, "a.csv", '"size, cm";colour\n"1,5";red\n'))
    assert table.to_pydict() == {"size, cm": [1.5], "colour": ["red"]}


def wide(first: str, second: str, n_columns: int = 1_200) -> str:
    header = ",".join(f"c{number}x" for number in range(n_columns))
    return f"{header}\n{first}{',0.5' * (n_columns - 1)}\n{second}{',2' * (n_columns - 1)}\n"


@pytest.mark.parametrize(
    ("first", "second", "kind"),
    [
        ("1.5", "2", pa.float64()),
        ("1", "2", pa.int64()),
        ("1.5", "soon", pa.string()),
        ("", "2.5", pa.float64()),
    ],
)
def test_types_in_wide_tables_are_those_in_narrow_ones(
    tmp_path: Path, first: str, second: str, kind: object
) -> None:
    narrow = read_table(written(tmp_path, "narrow.csv", wide(first, second, 3)))
    table = read_table(written(tmp_path, "wide.csv", wide(first, second)))
    assert table["c0x"].type == kind
    assert table.select(narrow.column_names).equals(narrow)


def test_a_table_of_far_too_many_columns_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CORANK_MAX_COLUMNS", "5")
    write_table({f"c{number}": [1] for number in range(6)}, tmp_path / "wide.parquet")
    for path in (written(tmp_path, "wide.csv", wide("1", "2", 6)), tmp_path / "wide.parquet"):
        with pytest.raises(TableError, match=r"wide.* has 6 columns"):
            read_table(path)


@pytest.mark.parametrize("values", [["1,5", "2,x"], ["1,2,3", "4,5,6"], ["1.234,5", "2,5"]])
def test_texts_that_only_resemble_decimal_commas_stay_text(
    tmp_path: Path, values: list[str]
) -> None:
    path = written(tmp_path, "a.csv", "x;y\n" + "".join(f"{value};1\n" for value in values))
    assert read_table(path)["x"].to_pylist() == values


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", "", "is empty"),
        ("a.csv", "\n\n", "is empty"),
        ("a.csv", "\ufeff", "is empty"),
        ("a.csv.gz", gzip.compress(b"", mtime=0), "is empty"),
        ("a.parquet", "", "is empty"),
        ("a.csv", "x,y", "has a header but no rows"),
        ("a.csv", "x,y\n\n", "has a header but no rows"),
        (
            "a.csv",
            "x,y\n1,2\n3\n4,5\n",
            r"data row 2 of .*a\.csv has 1 fields, but the header has 2",
        ),
        (
            "a.csv",
            "\nx,y\n1,2\n\n3,4,5\n",
            r"data row 2 of .*a\.csv has 3 fields, but the header has 2",
        ),
        ("a.csv", "x,y,x\n1,2,3\n", "several columns with the same name: 'x'"),
        ("a.csv", b"x,y\n1,\xff\n", "not UTF-8 text"),
        ("a.csv", b"x,y\n" + b"1,a\n" * 5_000 + b"1,\xff\n", "column 'y' of .* is not UTF-8 text"),
        ("a.csv", "x,y\n1,2\n".encode("utf-16"), "not UTF-8 text"),
        ("a.csv.gz", b"x,y\n1,2\n", "cannot be read"),
        ("a.csv.gz", gzip.compress(b"x,y\n" + b"1,2\n" * 999, mtime=0)[:-9], "cannot be read"),
        ("a.csv.gz", gzip.compress(b"x,y\n" + b"1,2\n" * 999, mtime=0)[:12], "cannot be read"),
        ("a.parquet", "x,y\n1,2\n", r"a\.parquet looks like text: rename it to \.csv"),
        # cut inside a letter after 4,096 bytes
        ("a.pq", "x,ä\n" * 1365 + "ä", "looks like text: rename it to"),
        ("a.parquet", b"\0\xff nothing known", "cannot be read"),
        ("a.parquet", b"PAR1 cut off", "cannot be read"),
        (
            "a.csv",
            b"PAR1\x15\x04 and more PAR1",
            r"a\.csv is a Parquet file: rename it to \.parquet",
        ),
        ("a.tsv", b"PAR1\x15\x04 and more PAR1", "is a Parquet file"),
        ("a.xlsx", "x", "save it as CSV"),
        ("a.doc", "x", r"known are \.csv, \.tsv, \.txt, .*\.parquet, \.pq"),
        ("a.parquet.gz", "x", "no file extension of a table"),
        ("a.gz", "x", "no file extension of a table"),
        ("a", "x", "no file extension of a table"),
    ],
)
def test_a_file_that_is_no_table_is_refused_in_one_sentence(
    tmp_path: Path, name: str, content: bytes | str, message: str
) -> None:
    with pytest.raises(TableError, match=message) as caught:
        read_table(written(tmp_path, name, content))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_real_file_of_the_other_kind_is_recognised(tmp_path: Path, kind: str) -> None:
    other = {"csv": "parquet", "parquet": "csv"}[kind]
    write_table({"x": [1, 2], "y": ["a", "b"]}, tmp_path / f"right.{kind}")
    wrong = (tmp_path / f"right.{kind}").rename(tmp_path / f"wrong.{other}")
    with pytest.raises(TableError, match=rf"rename it to \.{kind}$"):
        read_table(wrong)
    assert read_table(wrong.rename(tmp_path / f"right.{kind}")).num_rows == 2


def test_missing_files_and_folders_are_named(tmp_path: Path) -> None:
    with pytest.raises(TableError, match=r"there is no file .*nowhere\.csv"):
        read_table(tmp_path / "nowhere.csv")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(TableError, match=r"folder\.csv is a folder"):
        read_table(tmp_path / "folder.csv")


def test_the_row_is_named_also_in_a_later_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("corank.tables.read.BLOCK_BYTES", 2**10)
    path = written(tmp_path, "a.csv", "x,y\n" + "1,2\n" * 5_000 + "1\n")
    with pytest.raises(TableError, match="data row 5001 "):
        read_table(path)


@in_one_folder
@given(cut=st.integers(0, 10_000))
def test_cut_off_parquet_is_refused(tmp_path: Path, cut: int) -> None:
    whole = tmp_path / "whole.parquet"
    parquet.write_table(pa.table({"x": np.arange(100.0), "y": ["a", "b"] * 50}), whole)
    content = whole.read_bytes()
    with pytest.raises(TableError):
        read_table(written(tmp_path, "cut.parquet", content[: cut % len(content)]))


@in_one_folder
@given(
    content=st.binary(max_size=60),
    ending=st.sampled_from([".csv", ".tsv", ".csv.gz", ".txt", ".pq"]),
)
def test_any_bytes_are_a_table_or_a_table_error(
    tmp_path: Path, content: bytes, ending: str
) -> None:
    path = written(tmp_path, f"any{ending}", content)
    with contextlib.suppress(TableError):
        assert read_table(path).num_rows > 0


# ---- writing

texts = st.text(st.characters(codec="utf-8"), max_size=8).filter(lambda text: text not in MISSING)
names = st.text(st.characters(codec="utf-8", exclude_characters="\r\n"), min_size=1, max_size=8)


@in_one_folder
@given(
    rows=st.lists(
        st.tuples(st.floats(allow_nan=False) | st.none(), texts | st.none()), min_size=1, max_size=8
    ),
    names=st.lists(names, min_size=2, max_size=2, unique=True),
    ending=st.sampled_from([".csv", ".tsv", ".csv.gz", ".txt", ".parquet"]),
)
def test_what_is_written_is_read_back(
    tmp_path: Path, rows: list[tuple[float | None, str | None]], names: list[str], ending: str
) -> None:
    numbers, labels = (list(values) for values in zip(*rows, strict=True))
    path = tmp_path / f"table{ending}"
    write_table({names[0]: pa.array(numbers, pa.float64()), names[1]: labels}, path, overwrite=True)
    table = read_table(path, text=[names[1]])
    assert table.column_names == names
    assert table[names[0]].to_pylist() == numbers
    assert table[names[1]].to_pylist() == labels


@in_one_folder
@given(scores=st.lists(st.floats(-1e9, 1e9) | st.just(np.nan), min_size=1, max_size=8))
def test_one_column_keeps_its_rows(tmp_path: Path, scores: list[float]) -> None:
    write_table({"score": np.array(scores)}, tmp_path / "scores.csv", overwrite=True)
    np.testing.assert_array_equal(
        score_column(read_table(tmp_path / "scores.csv"), "score"), scores
    )


@pytest.mark.parametrize(
    "table",
    [
        {"x": np.array([1.0, 2.0]), "y": np.array(["a", "b"])},
        {"x": pd.Series([1.0, 2.0]), "y": pl.Series(["a", "b"])},
        pd.DataFrame({"x": [1.0, 2.0], "y": pd.Categorical(["a", "b"])}, index=[5, 6]),
        pl.DataFrame({"x": [1.0, 2.0], "y": pl.Series(["a", "b"], dtype=pl.Categorical)}),
        pa.table({"x": [1.0, 2.0], "y": ["a", "b"]}),
    ],
    ids=["numpy", "series", "pandas", "polars", "pyarrow"],
)
@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_any_kind_of_table_is_written(tmp_path: Path, table: object, ending: str) -> None:
    write_table(table, tmp_path / f"a.{ending}")
    assert read_table(tmp_path / f"a.{ending}").to_pydict() == {"x": [1.0, 2.0], "y": ["a", "b"]}


def test_lists_become_text_in_csv(tmp_path: Path) -> None:
    write_table({"v": [[0.5, 1.0], None], "x": [1, 2]}, tmp_path / "a.csv")
    assert read_table(tmp_path / "a.csv")["v"].to_pylist() == ["[0.5, 1.0]", None]


def test_an_existing_file_is_kept_unless_overwrite_is_true(tmp_path: Path) -> None:
    path = written(tmp_path, "a.csv", "x,y\n1,2\n")
    with pytest.raises(FileExistsError, match=r"a\.csv already exists: pass overwrite=True"):
        write_table({"z": [3]}, path)
    assert path.read_text() == "x,y\n1,2\n"
    write_table({"z": [3]}, path, overwrite=True)
    assert read_table(path).to_pydict() == {"z": [3]}


def test_a_failed_write_leaves_the_folder_as_it_was(tmp_path: Path) -> None:
    path = written(tmp_path, "a.csv", "x,y\n1,2\n")
    with pytest.raises(TableError, match="cannot be written"):
        write_table({"x": [1], "z": [{"a": 1}]}, path, overwrite=True)
    assert [each.name for each in tmp_path.iterdir()] == ["a.csv"]
    assert path.read_text() == "x,y\n1,2\n"


def test_an_interrupted_write_leaves_the_folder_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("pyarrow.parquet.ParquetWriter.write_table", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_table({"x": [1]}, tmp_path / "a.parquet")
    assert not list(tmp_path.iterdir())


def test_written_files_have_the_rights_of_any_new_file(tmp_path: Path) -> None:
    write_table({"x": [1]}, tmp_path / "a.csv")
    usual = written(tmp_path, "usual", "x")
    assert stat.S_IMODE((tmp_path / "a.csv").stat().st_mode) == stat.S_IMODE(usual.stat().st_mode)


def test_a_place_where_nothing_can_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nowhere does not exist"):
        write_table({"x": [1]}, tmp_path / "nowhere" / "a.csv")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(IsADirectoryError, match="is a folder"):
        check_target(tmp_path / "folder.csv", overwrite=True)
    with pytest.raises(TableError, match="no file extension of a table"):
        write_table({"x": [1]}, tmp_path / "a.json")


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"x": [1], "y": [1, 2]}, "do not make a table"),
        ({"x": [1, "a"]}, "column 'x' does not hold values of one known kind"),
        ({"x": 5}, "column 'x'"),
        ({"x": ["\ud800"]}, "column 'x'"),
        ({3: [1]}, "column names must be text, but one is 3"),
        (pd.DataFrame([[1, 2]]), "column names must be text, but one is 0"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "several columns with the same name.*'a'"),
        (pa.table([[1], [2]], names=["a", "a"]), "several columns with the same name.*'a'"),
        (pd.DataFrame({"x": pd.Series([1, "a"], dtype=object)}), "column 'x'"),
    ],
)
def test_what_makes_no_table_is_refused(table: object, message: str) -> None:
    with pytest.raises(TableError, match=message):
        to_arrow(table)


@pytest.mark.parametrize("table", [[1, 2], np.eye(2), None, "a.csv", pl.LazyFrame({"a": [1]})])
def test_what_is_no_table_is_a_type_error(table: object) -> None:
    with pytest.raises(TypeError, match="expected a table of pandas, polars"):
        to_arrow(table)


# ---- columns


def test_scores_are_numbers_with_nan_for_missing() -> None:
    table = pa.table(
        {
            "a": [1, None],
            "b": ["1.5", " NA "],
            "c": [True, None],
            "d": [np.nan, 2.0],
            "e": [None, None],
        }
    )
    expected = {
        "a": [1, np.nan],
        "b": [1.5, np.nan],
        "c": [1, np.nan],
        "d": [np.nan, 2],
        "e": [np.nan, np.nan],
    }
    for name, scores in expected.items():
        result = score_column(table, name)
        assert result.dtype == np.float64
        np.testing.assert_array_equal(result, scores)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            ["1", "good", "bad"],
            "'rating': 'good' in data row 2 .* leave the cell empty",
        ),
        (["1_000"], "'1_000' in data row 1"),
        ([1.0, float("inf")], "column 'rating' has an infinite .* in data row 2"),
        (["-inf"], "column 'rating' has an infinite .* in data row 1"),
        (pa.array([0], pa.date32()), "column 'rating' should hold numbers"),
        ([[1]], "column 'rating' should hold numbers"),
    ],
)
def test_scores_that_are_no_numbers_are_named(values: object, message: str) -> None:
    with pytest.raises(TableError, match=message):
        score_column(pa.table({"rating": values}), "rating")


@pytest.mark.parametrize(
    "labels",
    [[3, 1, 3], ["u", "v", "u"], [True, False, True], [1.5, 2.0, 1.5], [dt.date(2020, 1, 1)] * 3],
)
def test_queries_are_one_label_per_row(labels: list[object]) -> None:
    table = pa.table({"user": pa.array(labels), "category": pa.array(labels).dictionary_encode()})
    for name in table.column_names:
        result = query_column(table, name)
        assert result.tolist() == labels
        assert len({*result}) == len({*labels})


@pytest.mark.parametrize(
    ("labels", "row"), [(["u", None], 2), ([1, None], 2), ([1.0, np.nan], 2), ([None, None], 1)]
)
def test_a_missing_query_is_named_by_its_row(labels: list[object], row: int) -> None:
    with pytest.raises(
        TableError, match=f"query column 'user' has no value in data row {row}: every row needs"
    ):
        query_column(pa.table({"user": labels}), "user")


def test_lists_are_no_query_labels() -> None:
    with pytest.raises(TableError, match="query column 'user' holds list"):
        query_column(pa.table({"user": [[1]]}), "user")


def test_an_unknown_column_is_answered_with_those_there_are() -> None:
    table = pa.table({"Rating": [1], "user": [2]})
    message = r"no score column 'ratng'; did you mean 'Rating'\? The columns are 'Rating', 'user'$"
    with pytest.raises(TableError, match=message):
        score_column(table, "ratng")
    with pytest.raises(TableError, match=r"no query column 'x  y'\. The columns are"):
        query_column(table, "x  y")
    with pytest.raises(TableError, match=r"no column 'q'\. .* and 5 more$"):
        column(pa.table({f"{i:03}": [1] for i in range(25)}), "q")


# ---- other kinds of files

LETOR = b"2 qid:10 1:0.5 3:1 # doc a\n\n# a note\nnan qid:10 2:-1e3\n0 qid:11 1:4\n"


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.svm", LETOR),
        ("a.letor", LETOR),
        ("a.txt", LETOR),
        ("a.svm.gz", gzip.compress(LETOR, mtime=0)),
    ],
)
def test_svmlight_is_a_table_of_scores_queries_and_numbered_features(
    tmp_path: Path, name: str, content: bytes
) -> None:
    table = read_table(written(tmp_path, name, content))
    assert table.to_pydict() == {
        "score": [2, None, 0],
        "qid": [10, 10, 11],
        "1": [0.5, 0, 4],
        "2": [0, -1000, 0],
        "3": [1, 0, 0],
        "docid": ["doc a", None, None],
    }
    wider = with_zeros(table, ["1", "4", "colour"])
    assert wider.column_names == [*table.column_names, "4"]
    assert wider["4"].to_pylist() == [0, 0, 0]


def test_svmlight_without_queries_has_no_column_of_them(tmp_path: Path) -> None:
    assert read_table(written(tmp_path, "a.svm", "1 1:2\n0 2:1\n")).column_names == [
        "score",
        "1",
        "2",
    ]


def test_rows_of_a_long_svmlight_file_stay_in_order(tmp_path: Path) -> None:
    n_rows = 2 * PARSED_AT_ONCE + 3
    lines = [f"{row} qid:{row // 7} 2:{row / 8}" for row in range(n_rows)]
    table = read_table(written(tmp_path, "a.svm", "\n".join(lines)))
    rows = np.arange(n_rows)
    np.testing.assert_array_equal(table["score"], rows)
    np.testing.assert_array_equal(table["qid"], rows // 7)
    np.testing.assert_array_equal(table["1"], np.zeros(n_rows))
    np.testing.assert_array_equal(table["2"], rows / 8)


@pytest.mark.parametrize(
    ("content", "what"),
    [
        ("1 qid:1 1:2\n0 1:3\n", "some lines have no qid"),
        ("1 qid:1 1:2\n" * PARSED_AT_ONCE + "0 1:3\n", "some lines have no qid"),
        ("a,b\n1,2\n", "it begins with b'a,b"),
        ("1 1:2\n0 one\n", "is not an SVMlight file"),
        ("# nothing\n", "has no rows"),
    ],
)
def test_files_that_are_no_svmlight_are_refused(tmp_path: Path, content: str, what: str) -> None:
    with pytest.raises(TableError, match=what):
        read_table(written(tmp_path, "a.svm", content))


@pytest.mark.parametrize("name", ["a.jsonl", "a.ndjson", "a.jsonl.gz"])
def test_json_lines_come_back_as_they_were(tmp_path: Path, name: str) -> None:
    table = pa.table({"x": [1.5, None, float("nan")], "word": ["é", None, "b"], "n": [1, 2, 3]})
    write_table(table, tmp_path / name)
    assert read_table(tmp_path / name).to_pydict() == {**table.to_pydict(), "x": [1.5, None, None]}


def test_damaged_json_lines_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TableError, match=r"a\.jsonl cannot be read"):
        read_table(written(tmp_path, "a.jsonl", '{"x": 1}\n{"x": '))


def test_svmlight_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(TableError, match="cannot be written"):
        write_table({"x": [1]}, tmp_path / "a.svm")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("beginning", "ending"),
    [
        (b"a,b\n1,2\n", ".csv"),
        (b"a\tb\n1\t2\n", ".csv"),
        (b"PAR1\0\0", ".parquet"),
        (b'{"a": 1}\n', ".jsonl"),
        (LETOR, ".svm"),
        (b"-1.5 3:0.5 7:1e-3\n", ".svm"),
        (b"1 " + b"1:0.123456 " * 500, ".svm"),
        (b"2020-01-01 10:30\n", ".csv"),
        (gzip.compress(b"a,b\n1,2\n", mtime=0), ".csv.gz"),
        (gzip.compress(LETOR, mtime=0), ".svm.gz"),
    ],
)
def test_a_kind_is_known_by_its_first_bytes(beginning: bytes, ending: str) -> None:
    assert ending_of(beginning[:4096]) == ending


# ---- formats that are given


@pytest.mark.parametrize(
    ("name", "format", "content"),
    [
        ("a", "csv", b"x,y\n1,one\n2,two\n"),
        ("a.data", "tsv", b"x\ty\n1\tone\n2\ttwo\n"),
        ("a.csv", "tsv", b"x\ty\n1\tone\n2\ttwo\n"),
        ("a.tsv", "csv", b"x,y\n1,one\n2,two\n"),
        ("a.gz", "csv", gzip.compress(b"x,y\n1,one\n2,two\n", mtime=0)),
        ("a.txt", "jsonl", b'{"x": 1, "y": "one"}\n{"x": 2, "y": "two"}\n'),
    ],
)
def test_a_given_format_goes_before_the_ending(tmp_path, name, format, content):
    path = written(tmp_path, name, content)
    expected = {"x": [1, 2], "y": ["one", "two"]}
    assert read_table(path, format=format).to_pydict() == expected
    assert TableFile(path, format).read().to_pydict() == expected


@pytest.mark.parametrize(
    "content", [b"1.5,one\n2.5,two\n", b"\xef\xbb\xbf1.5,one\n2.5,two\n", b"\n1.5;one\n2.5;two\n"]
)
def test_columns_without_a_header_are_numbered(tmp_path, content):
    table = read_table(written(tmp_path, "a.csv", content), has_header=False)
    assert table.to_pydict() == {"1": [1.5, 2.5], "2": ["one", "two"]}


def test_rows_without_a_header_are_counted_from_the_first(tmp_path):
    path = written(tmp_path, "a.csv", "1,2\n3,4\n5\n")
    for has_header, row in ((True, 2), (False, 3)):
        with pytest.raises(TableError, match=f"data row {row} .* has 1 fields"):
            read_table(path, has_header=has_header)


def test_scans_read_a_table_as_it_is_written(tmp_path):
    path = written(tmp_path, "a.data", "".join(f"{x}\t{x % 3}\n" for x in range(20)))
    rows = scan(TableFile(path, "tsv", has_header=False), score="2")
    assert rows.columns == ["1", "2"]
    assert [float(cell) for chunk in rows.chunks() for cell in chunk.features[:, 0]] == list(
        range(20)
    )
