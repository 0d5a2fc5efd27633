"""Every command against every kind of bad input: one sentence on stderr, exit code 2, and nothing left behind."""

import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from command_line import error, run
from pyarrow import parquet
from safetensors.numpy import save_file

from corank.tables import read_table

pytestmark = pytest.mark.usefixtures("one_blas_thread")
HEADER = "item,shop,colour,size,weight,stars\n"
N = 48


def lines(seed=0, n=N):
    rng = np.random.default_rng(seed)
    for row in range(n):
        size, weight = rng.normal(size=2).round(3)
        stars = round(3 + size + rng.normal(0, 0.1), 2) if row % 4 else ""
        yield f"i{row},s{row % 6},{'red' if size > 0 else 'blue'},{size},{weight},{stars}\n"


GOOD = HEADER + "".join(lines())
PAIRS = "winner,loser\n" + "".join(f"i{k},i{(k * 7 + 3) % N}\n" for k in range(20))


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Good tables, models of scores and of comparisons, settings of a federated run."""
    folder = tmp_path_factory.mktemp("made")
    (folder / "good.csv").write_text(GOOD)
    (folder / "pairs.csv").write_text(PAIRS)
    columns = ("--score", "stars", "--query", "shop", "--id", "item")
    run("fit", folder / "good.csv", *columns, "--method", "rankrls", "--gamma", "scale", "--out", folder / "m.corank")
    compared = ("--item", "item", "--comparisons", folder / "pairs.csv", "--method", "preference", "--gamma", "0.3")
    compared = (*compared, "--features", "size,weight")
    run("fit", folder / "good.csv", *compared, "--amplitude", "1", "--out", folder / "p.corank", "--quiet")
    run("federated", "init", folder / "party", "--site", "north", "--site", "south", "--quiet")
    return folder


@pytest.fixture
def place(made, tmp_path, monkeypatch):
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def everything(folder):
    return sorted(path for path in folder.rglob("*"))


def refused(place, words, what):
    before = everything(place)
    said = error(*words)
    assert what in said, said
    assert len(said) < 500
    assert everything(place) == before, "something was left behind"


# ---------------------------------------------------------------- tables

SCORES = ("--score", "stars", "--query", "shop", "--id", "item")
COMPARED = ("--item", "item", "--method", "preference")
READERS = {  # with the bad table in place of BAD
    "fit": ("fit", "BAD", *SCORES, "--out", "x.corank"),
    "fit --items": ("fit", "good.csv", *SCORES, "--items", "BAD", "--out", "x.corank"),
    "fit on comparisons": ("fit", "BAD", *COMPARED, "--comparisons", "pairs.csv", "--out", "x.corank"),
    "fit --comparisons": ("fit", "good.csv", *COMPARED, "--comparisons", "BAD", "--out", "x.corank"),
    "rank": ("rank", "m.corank", "BAD", "--out", "x.csv"),
    "evaluate": ("evaluate", "m.corank", "BAD"),
    "evaluate --items": ("evaluate", "p.corank", "pairs.csv", "--items", "BAD"),
    "evaluate comparisons": ("evaluate", "p.corank", "BAD", "--items", "good.csv", "--out", "x.csv"),
    "compare": ("compare", "BAD", *SCORES, "--report", "x.html", "--keep", "kept"),
    "suggest": ("suggest", "p.corank", "BAD", "--out", "x.csv"),
    "update": ("update", "m.corank", "BAD", "--out", "x.corank"),
    "update comparisons": ("update", "p.corank", "BAD", "--items", "good.csv", "--out", "x.corank"),
    "federated predict": ("federated", "predict", "party/coordinator/coordinator.toml", "BAD", "--out", "x.csv"),
}
PASSES = ("fit", "rank", "evaluate")  # that read folders
LATIN = HEADER.replace("colour", "farbe").encode() + "i1,s1,grün,1,2,3\ni2,s1,blau,1,2,4\n".encode("latin-1")
JUNK = np.random.default_rng(0).bytes(3_000)
TABLES = {
    "a missing file": ("none.csv", None, "there is no file none.csv"),
    "an empty file": ("bad.csv", b"", "bad.csv is empty"),
    "a header only": ("bad.csv", HEADER.encode(), "bad.csv has a header but no rows"),
    "duplicate columns": ("bad.csv", b"item,item,a\n1,2,3\n", "bad.csv has several columns of one name: 'item'"),
    "binary junk": ("bad.csv", JUNK, "bad.csv"),
    "binary junk called Parquet": ("bad.parquet", JUNK, "bad.parquet cannot be read, it may be damaged"),
    "binary junk called gzip": ("bad.csv.gz", JUNK, "bad.csv.gz cannot be read, it may be damaged"),
    "no UTF-8": ("bad.csv", LATIN, "is not UTF-8 text: save"),
    "uneven rows": ("bad.csv", b"item,a\n1,2\n1,2,3\n", "data row 2 of bad.csv has 3 fields, but the header has 2"),
    "CSV called Parquet": ("bad.parquet", GOOD.encode(), "bad.parquet looks like text: rename it to .csv"),
    "no ending": (
        "bad",
        GOOD.encode(),
        "bad does not end like a table (.csv, .parquet, …): say what it is with --format",
    ),
}


@pytest.mark.parametrize("case", TABLES)
@pytest.mark.parametrize("command", READERS)
def test_a_bad_table(place, command, case):
    name, content, what = TABLES[case]
    if content is not None:
        Path(name).write_bytes(content)
    refused(place, [name if word == "BAD" else word for word in READERS[command]], what)


@pytest.mark.parametrize("command", READERS)
def test_a_folder_in_place_of_a_table(place, command):
    Path("empty").mkdir()
    what = "the folder empty has no files to read" if command in PASSES else "is a folder"
    refused(place, ["empty" if word == "BAD" else word for word in READERS[command]], what)


@pytest.mark.parametrize("command", READERS)
def test_a_cut_off_parquet_file(place, command):
    parquet.write_table(read_table("good.csv"), "whole.parquet")
    Path("bad.parquet").write_bytes(Path("whole.parquet").read_bytes()[:-200])
    refused(
        place, ["bad.parquet" if word == "BAD" else word for word in READERS[command]], "bad.parquet cannot be read"
    )


LONG = "x" * 10_000
CONTENTS = {  # what is wrong inside, as far as a command looks at it
    "a text column as score": (
        ("fit", "compare", "evaluate", "update"),
        ("--score", "colour"),
        GOOD,
        "holds text, such as",
    ),
    "no such column": (("fit", "compare", "evaluate", "update"), ("--score", "star"), GOOD, "did you mean 'stars'?"),
    "an all-empty score": (
        ("fit", "compare", "evaluate", "update"),
        (),
        HEADER + "".join(f"i{k},s{k % 6},red,{k},1,\n" for k in range(40)),
        "'stars'",
    ),
    "a single score": (("fit",), (), HEADER + "a,s,red,1,2,3\nb,s,red,2,1,\n", "has a single score"),
    "a long cell as score": (
        ("fit", "compare", "evaluate", "update"),
        (),
        HEADER + f"a,s,red,1,2,{LONG}\nb,s,red,2,1,3\n",
        "xxx… in data row 1 is not a number",
    ),
    "a query that is missing": (
        ("fit", "compare", "rank"),
        (),
        HEADER + "a,,red,1,2,3\nb,s,red,2,1,1\n",
        "query column 'shop' has no value in data row 1",
    ),
    "infinity": (("fit", "compare", "rank"), (), HEADER + "a,s,red,inf,2,3\nb,s,red,2,1,1\n", "infinite"),
}


@pytest.mark.parametrize(("case", "command"), [(case, one) for case, (ones, *_) in CONTENTS.items() for one in ones])
def test_bad_contents(place, case, command):
    _, options, content, what = CONTENTS[case]
    Path("bad.csv").write_text(content)
    words = ["bad.csv" if word == "BAD" else word for word in READERS[command]]
    refused(place, [*words, *options], what)


@pytest.mark.parametrize("command", ["fit", "compare"])
def test_a_single_query_is_said_where_it_is_too_few(place, command):
    Path("bad.csv").write_text(HEADER + "".join(f"i{k},s0,red,{k % 7},1,{k}\n" for k in range(40)))
    words = ["bad.csv" if word == "BAD" else word for word in READERS[command]]
    if command == "compare":
        refused(place, words, "only 1 value of 'shop' has two rows with different 'stars'")
    else:
        run(*words, "--quiet")


@pytest.mark.parametrize(
    ("rows", "what"),
    [
        ("winner,loser\ni1,i2\ni3,nobody\n", "'nobody' in data row 2 of bad.csv is no item of good.csv"),
        ("winner,loser\ni1,i1\n", "compares 'i1' with itself"),
        ("winner,looser\ni1,i2\n", "there is no loser column 'loser'; did you mean 'looser'?"),
        (f"winner,loser\ni1,{LONG}\n", "is no item of good.csv"),
    ],
)
@pytest.mark.parametrize("command", ["fit --comparisons", "evaluate comparisons", "update comparisons"])
def test_bad_comparisons(place, command, rows, what):
    Path("bad.csv").write_text(rows)
    refused(place, ["bad.csv" if word == "BAD" else word for word in READERS[command]], what)


def test_tables_that_look_odd_but_are_sound(place):
    columns = (*SCORES, "--method", "rankrls", "--gamma", "scale", "--quiet")
    Path("crlf.csv").write_bytes(GOOD.replace("\n", "\r\n").encode())
    Path("bom.csv").write_text("\ufeff" + GOOD)
    Path("long.csv").write_text(GOOD.replace("red", LONG))
    for name in ("crlf", "bom", "long"):
        run("fit", f"{name}.csv", *columns, "--out", f"{name}.corank")
        run("rank", f"{name}.corank", f"{name}.csv", "--out", f"{name}-ranked.csv", "--id", "item", "--quiet")
    run("rank", "m.corank", "good.csv", "--out", "ranked.csv", "--id", "item", "--quiet")
    for name in ("crlf", "bom", "long"):
        assert Path(f"{name}-ranked.csv").read_text() == Path("ranked.csv").read_text()
    shown = run("inspect", "long.corank").stdout
    assert LONG[:30] not in shown
    assert max(map(len, run("rank", "long.corank", "long.csv").stdout.splitlines())) <= 110


# ---------------------------------------------------------------- features at rank


def test_features_that_are_missing_extra_or_in_another_order(place):
    table = read_table("good.csv")
    run("rank", "m.corank", "good.csv", "--out", "plain.csv", "--id", "item", "--quiet")
    orders = {"other.csv": table.column_names[::-1], "fewer.csv": ["item", "shop", "colour", "weight"]}
    for name, columns in orders.items():
        run_table = table.select(columns)
        Path(name).write_text(run_table.to_pandas().to_csv(index=False))
    table.append_column("extra", pa.array(range(N))).to_pandas().to_csv("more.csv", index=False)
    for name in ("other", "more"):
        run("rank", "m.corank", f"{name}.csv", "--out", f"{name}-ranked.csv", "--id", "item", "--quiet")
        assert Path(f"{name}-ranked.csv").read_text() == Path("plain.csv").read_text()
    for words in (("rank", "m.corank", "fewer.csv", "--out", "x.csv"), ("suggest", "p.corank", "fewer.csv")):
        refused(place, words, "'size'")
    Path("typo.csv").write_text(GOOD.replace("weight", "wieght"))
    refused(place, ("rank", "m.corank", "typo.csv", "--out", "x.csv"), "'weight' (did you mean 'wieght'?)")
    Path("texts.csv").write_text(GOOD.replace("weight", "weight").replace(",red,", ",red,heavy"))
    refused(place, ("rank", "m.corank", "texts.csv", "--out", "x.csv"), "is not a number")


# ---------------------------------------------------------------- models

MODEL_READERS = {
    "rank": ("rank", "BAD", "good.csv", "--out", "x.csv"),
    "evaluate": ("evaluate", "BAD", "good.csv"),
    "inspect": ("inspect", "BAD"),
    "suggest": ("suggest", "BAD", "good.csv", "--out", "x.csv"),
    "update": ("update", "BAD", "good.csv", "--out", "x.corank"),
}


def newer(path):
    """A file of a later format, as a later corank would write it."""
    from safetensors import safe_open

    with safe_open("m.corank", framework="np") as file:
        arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        about = json.loads(file.metadata()["corank"])
    save_file(arrays, path, metadata={"corank": json.dumps({**about, "version": 99, "corank": "7.0"}), "sha256": ""})


MODELS = {
    "a missing file": (lambda path: None, "there is no file bad.corank"),
    "an empty file": (lambda path: path.write_bytes(b""), "bad.corank is not a model file"),
    "a folder": (lambda path: path.mkdir(), "bad.corank is a folder, not a model file"),
    "binary junk": (lambda path: path.write_bytes(JUNK), "bad.corank is not a model file, or it is damaged"),
    "text": (lambda path: path.write_text(GOOD), "bad.corank is not a model file, or it is damaged"),
    "a cut-off model": (
        lambda path: path.write_bytes(Path("m.corank").read_bytes()[:-50]),
        "bad.corank is not a model file, or it is damaged or cut off",
    ),
    "a changed model": (
        lambda path: path.write_bytes(Path("m.corank").read_bytes()[:-3] + b"abc"),
        "bad.corank is damaged: its content does not match its checksum",
    ),
    "another safetensors file": (
        lambda path: save_file({"a": np.zeros(3)}, path),
        "bad.corank is a safetensors file, but not a corank model",
    ),
    "a later version": (newer, "bad.corank was written by a newer corank"),
}


@pytest.mark.parametrize("case", MODELS)
@pytest.mark.parametrize("command", MODEL_READERS)
def test_a_bad_model(place, command, case):
    make, what = MODELS[case]
    make(Path("bad.corank"))
    refused(place, ["bad.corank" if word == "BAD" else word for word in MODEL_READERS[command]], what)


# ---------------------------------------------------------------- outputs

WRITERS = {
    "fit": (("fit", "good.csv", *SCORES, "--method", "rankrls", "--out"), "x.corank"),
    "fit --report": (("fit", "good.csv", *SCORES, "--method", "rankrls", "--out", "y.corank", "--report"), "x.html"),
    "rank": (("rank", "m.corank", "good.csv", "--out"), "x.csv"),
    "evaluate": (("evaluate", "p.corank", "pairs.csv", "--items", "good.csv", "--out"), "x.jsonl"),
    "compare": (("compare", "good.csv", *SCORES, "--keep", "kept", "--report"), "x.html"),
    "suggest": (("suggest", "p.corank", "good.csv", "--out"), "x.parquet"),
    "update": (("update", "m.corank", "good.csv", "--out"), "x.corank"),
    "demo": (("demo", "--out"), "x.corank"),
    "demo --report": (("demo", "--out", "y.corank", "--report"), "x.html"),
    "federated predict": (
        ("federated", "predict", "party/coordinator/coordinator.toml", "good.csv", "--id", "item", "--out"),
        "x.csv",
    ),
}
PLACES = {
    "a folder that is not there": (lambda name: f"none/{name}", lambda path: None, "the folder none does not exist"),
    "a file in place of its folder": (
        lambda name: f"file/{name}",
        lambda path: Path("file").write_text("a"),
        "file is a file, so",
    ),
    "a folder of that name": (lambda name: name, lambda path: path.mkdir(), "is a folder: give the name of a file"),
    "a file that is there": (
        lambda name: name,
        lambda path: path.write_text("kept"),
        "is already there: use --force to replace it",
    ),
}


@pytest.mark.parametrize("case", PLACES)
@pytest.mark.parametrize("command", WRITERS)
def test_a_place_that_cannot_be_written(place, command, case):
    words, name = WRITERS[command]
    where, make, what = PLACES[case]
    target = Path(where(name))
    make(target)
    refused(place, [*words, target], what)
    if case == "a file that is there":
        assert target.read_text() == "kept"


@pytest.mark.parametrize("command", WRITERS)
def test_a_device_is_not_replaced_even_with_force(place, command):
    words, name = WRITERS[command]
    Path(name).symlink_to("/dev/null")
    refused(place, [*words, name, "--force"], "is no ordinary file and is not replaced")


@pytest.mark.parametrize("command", ["rank", "evaluate", "suggest", "federated predict"])
def test_the_ending_of_a_result_is_checked_before_any_work(place, command):
    words, _ = WRITERS[command]
    for name in ("x.xlsx", "x.svm", "x"):
        refused(
            place, [*words, name], f"--out {name}: a table that is written ends with .csv, .tsv, .parquet or .jsonl"
        )
    refused(place, [*words, "x.csv", "--out-format", "jsonl"], "--out-format is for --out -")
    refused(place, [*words, "-", "--json"], "--json and --out - would both be printed")


# ---------------------------------------------------------------- the other commands


@pytest.mark.parametrize("command", ["coordinate", "join"])
@pytest.mark.parametrize(
    ("content", "what"),
    [(None, "there is no file"), (b"", ""), (JUNK, "bad.toml"), (b"run = 1\ncolour = 2\n", "")],
)
def test_bad_settings(place, command, content, what):
    if content is not None:
        Path("bad.toml").write_bytes(content)
    refused(place, ("federated", command, "bad.toml"), what)


@pytest.mark.parametrize(("case"), TABLES)
def test_a_site_with_a_bad_table(place, case):
    name, content, what = TABLES[case]
    what = "bad does not end like a table" if name == "bad" else what.replace(name, f"party/north/{name}")
    if content is not None:
        (Path("party/north") / name).write_bytes(content)
    settings = Path("party/north/site.toml")
    settings.write_text(settings.read_text().replace("rows.csv", name).replace('"score"', '"stars"'))
    refused(place, ("federated", "join", settings), what)


def test_federated_init_keeps_what_is_there(place):
    Path("file").write_text("a")
    refused(place, ("federated", "init", "file/party", "--site", "a"), "file")
    refused(place, ("federated", "init", "party", "--site", "north"), "party/north is already there")
    refused(place, ("federated", "init", "other", "--site", "a/b"), "a/b")
