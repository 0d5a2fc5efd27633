"""Small files that would crash the process, hang it or take all memory, of kinds that limits on
cells and lines do not find: each is refused in one sentence, or read in linear time.
"""

import gzip
import json
from contextlib import closing
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyarrow import parquet

from corank.interview.page import PICTURE_URL
from corank.tables import TableError, limits, read_table, score_column
from corank.tables.limits import MAX_DEPTH, PIECE_BYTES, ShallowStream, number_of_names
from corank.tables.read import last_feature

ROW = '{"score": 1, "b": [1, 2]}\n'
NESTED = {
    "lists": ("[", "1", "]"),
    "objects": ('{"a":', "1", "}"),
    "both": ('[{"a":', "1", "}]"),
    "texts with brackets": ('["]]]\\"]}}\\\\",', "1", "]"),
    "brackets in lines": ("[\n", "1", "\n]"),
    "ends in texts": ('{"}":["}","{}]",', "1", "]}"),
}


def nested(kind, depth):
    start, middle, end = NESTED[kind]
    return f'{{"score": 1, "b": {start * depth}{middle}{end * depth}}}\n'


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("n_rows_before", [0, 3, PIECE_BYTES // len(ROW) - 2, 100_000])
@pytest.mark.parametrize("kind", NESTED)
def test_deeply_nested_json_is_refused_wherever_it_begins(
    tmp_path, kind, n_rows_before, compressed
):
    text = (ROW * n_rows_before + nested(kind, 150) + ROW * 3).encode()
    path = tmp_path / ("rows.jsonl.gz" if compressed else "rows.jsonl")
    path.write_bytes(gzip.compress(text, 1) if compressed else text)
    with pytest.raises(TableError, match=r"rows.jsonl.*line .* nested more than 100") as error:
        read_table(path)
    if "\n" not in nested(kind, 1)[:-1]:
        assert f"line {n_rows_before + 1:,} " in str(error.value)


def test_nesting_by_which_the_parser_of_arrow_would_crash(tmp_path):
    path = tmp_path / "rows.jsonl"
    for depth in (9_000, 100_000):
        path.write_text(ROW + nested("lists", depth))
        with pytest.raises(TableError, match="nested"):
            read_table(path)


def test_what_is_nested_less_deeply_is_read(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text(ROW + '{"score": 2, "b": [3], "c": "' + "[{" * 9_000 + '\\""}\n' + ROW)
    assert read_table(path).num_rows == 3
    depth = MAX_DEPTH - 1  # inside of the row
    path.write_text('{"score": 1, "b": ' + "[" * depth + "]" * depth + "}\n" + "\n" * 5)
    assert read_table(path).num_rows == 1


@pytest.mark.parametrize("seed", range(5))
def test_levels_do_not_depend_on_how_a_file_is_cut_into_blocks(tmp_path, seed):
    rng = np.random.default_rng(seed)
    parts = ["[", "]", "{", "}", '"', "\\", '"a\\\\"', '"\\"["', "\n", "\r\n", "x" * 40]
    text = "".join(rng.choice(parts, size=3_000)) + "\n" + nested("both", 60)
    path = tmp_path / "rows.jsonl"
    path.write_bytes((ROW * 20 + text).encode())
    for size in (1, 7, 1_000, 2**20):
        with (
            closing(ShallowStream(path, compressed=False)) as stream,
            pytest.raises(TableError, match="nested"),
        ):
            list(iter(partial(stream.read, size), b""))


ROWS = (
    b'{"a": 1, "b": "x"}\n',
    b'{"a":1,"b":"x, y"}\n',
    b'{"a": 1, "c": {"b": 2}}\n',
    b'{"a\\"b": 1, "b": "\\"a\\":"}\n',
    b'{"" : 1, "b" :2}\n',
    b'{"a": "\\\\", "b": ": \\\\"}\n',
    b'{"%d": 1}\n',
)


@pytest.mark.parametrize("seed", range(12))
def test_names_of_later_rows_are_counted_as_those_of_the_first(seed):
    rng = np.random.default_rng(seed)
    kinds = rng.choice(len(ROWS), rng.integers(1, 4), replace=False)
    numbers = rng.choice(kinds, 60_000)
    rows = [
        ROWS[kind] % at if b"%" in ROWS[kind] else ROWS[kind] for at, kind in enumerate(numbers)
    ]
    names = {name for row in rows for name in json.loads(row, object_pairs_hook=all_names)}
    assert number_of_names(b"".join(rows)) == len(names - {""})


def all_names(pairs):
    """The names of an object and of those inside it."""
    inside = [value for _, value in pairs if isinstance(value, set)]
    return {name for name, _ in pairs}.union(*inside)


def test_names_are_counted_in_linear_time():
    quotes = b'{"t":"' + b'\\"' * 2_000_000
    number_of_names(quotes)  # an hour in quadratic time
    assert number_of_names(quotes + b'"}\n') == 1
    assert number_of_names(b'{"a" : "x\\":", "b": {"c\\\\": 1}}\n{"a": ":"}') == 3


def test_the_last_feature_is_found_in_linear_time(tmp_path):
    path = tmp_path / "rows.svm"
    path.write_text("# " + "1" * 2_000_000 + "\n1 qid:1 2:3 7:1 # 99:1\n2 qid:1 # 5000:1\n3 4:1\n")
    assert last_feature(path) == 7  # hours in quadratic time


def test_texts_are_matched_in_linear_time():
    """Quadratic time would be hours."""
    n = 500_000
    assert not PICTURE_URL.fullmatch("http://" + ".png?" * n + " x")
    assert PICTURE_URL.fullmatch("https://a.b/c.png?d=.png#e")
    with pytest.raises(TableError, match="score column 'score' holds text"):
        score_column(pa.table({"score": [" " * n + "x", "y"]}), "score")


def lists_of_zeros():
    ends = pa.array(np.arange(5) * 2_500_000)
    return pa.table({"a": pa.LargeListArray.from_arrays(ends, pa.array(np.zeros(10**7, "f4")))})


def repeated(n, value):
    codes = pa.array(np.zeros(n, dtype=np.int32))
    return pa.DictionaryArray.from_arrays(codes, pa.array([value]))


PARQUET = {
    "lists of zeros": (lists_of_zeros, {}),
    "a long text in a dictionary": (lambda: pa.table({"a": repeated(2_000, "x" * 50_000)}), {}),
    "a long text in lists": (
        lambda: pa.table(
            {"a": pa.ListArray.from_arrays(pa.array([0, 1, 2_000]), repeated(2_000, "x" * 50_000))}
        ),
        {},
    ),
    "a long text in objects": (
        lambda: pa.table(
            {"a": pa.StructArray.from_arrays([repeated(2_000, "x" * 50_000)], names=["b"])}
        ),
        {},
    ),
    "a long text in a larger file": (
        lambda: pa.table(
            {
                "a": repeated(2_000, "x" * 50_000),
                "b": np.random.default_rng(0).random((2_000, 80)).tolist(),
            }
        ),
        {"row_group_size": 700},
    ),
    "texts that begin alike": (
        lambda: pa.table({"a": ["x" * 50_000] * 2_000}),
        {"use_dictionary": False, "column_encoding": {"a": "DELTA_BYTE_ARRAY"}},
    ),
    "texts of one letter": (
        lambda: pa.table({"a": ["x" * 50_000] * 2_000}),
        {"use_dictionary": False},
    ),
    "bytes of one length": (
        lambda: pa.table({"a": pa.array([b"x" * 50_000] * 2_000, pa.binary(50_000))}),
        {},
    ),
}


@pytest.mark.parametrize("has_sizes", [True, False])
@pytest.mark.parametrize("kind", PARQUET)
def test_repeated_values_of_parquet_are_refused_before_they_take_memory(
    tmp_path, monkeypatch, kind, has_sizes
):
    if not has_sizes:  # in a footer that would be read
        monkeypatch.setattr(limits, "MAX_FOOTER_BYTES", 0)
    monkeypatch.setattr(limits, "FREE_PARQUET_BYTES", limits.FREE_BYTES)
    make, options = PARQUET[kind]
    path = tmp_path / "rows.parquet"
    parquet.write_table(make(), path, compression="zstd", store_schema=False, **options)
    usual_pool = pa.default_memory_pool()
    pool = pa.proxy_memory_pool(usual_pool)
    pa.set_memory_pool(pool)
    try:
        with pytest.raises(TableError, match=limits.MAX_EXPANSION.variable) as error:
            read_table(path)
    finally:
        pa.set_memory_pool(usual_pool)
    assert path.name in str(error.value)
    assert pool.max_memory() < limits.FREE_BYTES


@pytest.mark.parametrize("options", [{}, PARQUET["texts that begin alike"][1]])
def test_a_long_text_that_occurs_once_does_not_count_for_all_rows(tmp_path, options):
    texts = ["x" * 100_000] + [f"text {number % 7}" for number in range(20_000)]
    path = tmp_path / "rows.parquet"
    lists = [[1.0, 2.0]] * len(texts)
    parquet.write_table(pa.table({"a": texts, "v": lists}), path, row_group_size=6_000, **options)
    assert read_table(path)["a"].to_pylist() == texts


@pytest.mark.parametrize("options", [{}, {"row_group_size": 7}, {"use_dictionary": False}])
def test_sizes_of_texts_are_read_from_a_footer(tmp_path, options):
    rng = np.random.default_rng(0)
    words = ["x" * 700, "", "é", *(f"word {number}" for number in range(90))]
    texts = pa.array(rng.choice(words, size=900), mask=rng.random(900) < 0.2)
    lists = pa.ListArray.from_arrays(pa.array([0, 2, 2, 600, 900]), texts)
    n_bytes = pc.sum(pc.binary_length(texts)).as_py()
    path = tmp_path / "rows.parquet"
    for values in (texts, lists, pa.StructArray.from_arrays([texts], names=["b"])):
        table = pa.table({"number": np.arange(len(values)), "a": values})
        parquet.write_table(table, path, **options)
        assert sum(limits.stated_text_bytes(path)) == n_bytes


@pytest.mark.parametrize("kind", [pa.string_view(), pa.binary_view(), pa.large_string()])
def test_texts_of_any_type_are_measured(tmp_path, kind):
    texts = pa.array([f"{'x' * 20_000} {number % 9}" for number in range(3_000)], kind)
    path = tmp_path / "rows.parquet"
    parquet.write_table(pa.table({"a": texts}), path, **PARQUET["texts that begin alike"][1])
    assert read_table(path).num_rows == 3_000


def test_a_small_file_of_wide_rows_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "rows.svm"
    path.write_text("".join(f"{row % 7} 200000:1\n" for row in range(1_300)))
    with pytest.raises(TableError, match=rf"rows.svm.*{limits.MAX_ZEROS.variable}"):
        read_table(path)
    path.write_text("".join(f"{row % 7} {row + 1}:1 40000:1\n" for row in range(150)))
    table = read_table(path)
    assert table.shape == (150, 40_001)
    assert table["200"].to_pylist() == [0.0] * 150
    assert table["7"].to_pylist() == [0.0] * 6 + [1.0] + [0.0] * 143
    monkeypatch.setattr(limits, "FREE_BYTES", 2**20)
    with pytest.raises(TableError, match=limits.MAX_ZEROS.variable):
        read_table(path)


def test_long_texts_that_many_rows_share_are_read(tmp_path):
    texts = [f"{at} " + "a longer description of a thing " * 330 for at in range(40)]
    path = tmp_path / "things.parquet"
    rows = pa.array([texts[at % 40] for at in range(10_000)])  # 105 MB
    parquet.write_table(pa.table({"text": rows, "score": np.arange(10_000.0)}), path)
    table = read_table(path)
    assert table.column("text")[9_999].as_py() == texts[39]


def test_signs_of_features_are_read(tmp_path):
    path = tmp_path / "signs.svm"
    path.write_text("+1 1:1 +2:2\n")
    assert last_feature(path) == 2
