"""Every command against every kind of bad input: one sentence on stderr, exit code 2, and nothing
left behind.
"""

import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from command_line import run
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
    run(
        "fit",
        folder / "good.csv",
        *columns,
        "--method",
        "rankrls",
        "--gamma",
        "scale",
        "--out",
        folder / "m.corank",
    )
    compared = (
        "--item",
        "item",
        "--comparisons",
        folder / "pairs.csv",
        "--method",
        "preference",
        "--gamma",
        "0.3",
    )
    compared = (*compared, "--features", "size,weight")
    run(
        "fit",
        folder / "good.csv",
        *compared,
        "--amplitude",
        "1",
        "--out",
        folder / "p.corank",
        "--quiet",
    )
    run("federated", "init", folder / "party", "--site", "north", "--site", "south", "--quiet")
    return folder


@pytest.fixture
def place(made, tmp_path, monkeypatch):
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def with_bad(words, name):
    return [name if word == "BAD" else word for word in words]


# ---------------------------------------------------------------- tables

SCORES = ("--score", "stars", "--query", "shop", "--id", "item")
COMPARED = ("--item", "item", "--method", "preference")
READERS = {  # with the bad table in place of BAD
    "fit": ("fit", "BAD", *SCORES, "--out", "x.corank"),
    "fit --items": ("fit", "good.csv", *SCORES, "--items", "BAD", "--out", "x.corank"),
    "fit on comparisons": (
        "fit",
        "BAD",
        *COMPARED,
        "--comparisons",
        "pairs.csv",
        "--out",
        "x.corank",
    ),
    "fit --comparisons": (
        "fit",
        "good.csv",
        *COMPARED,
        "--comparisons",
        "BAD",
        "--out",
        "x.corank",
    ),
    "rank": ("rank", "m.corank", "BAD", "--out", "x.csv"),
    "evaluate": ("evaluate", "m.corank", "BAD"),
    "evaluate --items": ("evaluate", "p.corank", "pairs.csv", "--items", "BAD"),
    "evaluate comparisons": (
        "evaluate",
        "p.corank",
        "BAD",
        "--items",
        "good.csv",
        "--out",
        "x.csv",
    ),
    "compare": ("compare", "BAD", *SCORES, "--report", "x.html", "--keep", "kept"),
    "explain": ("explain", "m.corank", "BAD", "--id", "i1", "--id", "i2", "--report", "x.html"),
    "suggest": ("suggest", "p.corank", "BAD", "--out", "x.csv"),
    "update": ("update", "m.corank", "BAD", "--out", "x.corank"),
    "update comparisons": ("update", "p.corank", "BAD", "--items", "good.csv", "--out", "x.corank"),
    "federated predict": (
        "federated",
        "predict",
        "party/coordinator/coordinator.toml",
        "BAD",
        "--out",
        "x.csv",
    ),
}
LATIN = HEADER.replace("colour", "farbe").encode() + "i1,s1,grün,1,2,3\ni2,s1,blau,1,2,4\n".encode(
    "latin-1"
)
JUNK = np.random.default_rng(0).bytes(3_000)
TABLES = {  # name and contents
    "a missing file": ("none.csv", None),
    "an empty file": ("bad.csv", b""),
    "a header only": ("bad.csv", HEADER.encode()),
    "duplicate columns": ("bad.csv", b"item,item,a\n1,2,3\n"),
    "binary junk": ("bad.csv", JUNK),
    "binary junk called Parquet": ("bad.parquet", JUNK),
    "binary junk called gzip": ("bad.csv.gz", JUNK),
    "no UTF-8": ("bad.csv", LATIN),
    "uneven rows": ("bad.csv", b"item,a\n1,2\n1,2,3\n"),
    "CSV called Parquet": ("bad.parquet", GOOD.encode()),
    "no ending": ("bad", GOOD.encode()),
}
# each other command sees the first and the last
WITH_EVERY_TABLE = ("fit", "rank", "update comparisons")


def table_cases():
    for command in READERS:
        cases = list(TABLES)
        for case in cases if command in WITH_EVERY_TABLE else (cases[0], cases[5], cases[-1]):
            yield command, case


@pytest.mark.parametrize(("command", "case"), list(table_cases()))
def test_a_bad_table(place, refused, command, case):
    name, content = TABLES[case]
    if content is not None:
        Path(name).write_bytes(content)
    refused(*with_bad(READERS[command], name), mentions=name)


@pytest.mark.parametrize("command", READERS)
def test_a_folder_in_place_of_a_table(place, refused, command):
    Path("empty").mkdir()
    refused(*with_bad(READERS[command], "empty"), mentions="empty")


@pytest.mark.parametrize("command", ["fit", "suggest"])
def test_a_cut_off_parquet_file(place, refused, command):
    parquet.write_table(read_table("good.csv"), "whole.parquet")
    Path("bad.parquet").write_bytes(Path("whole.parquet").read_bytes()[:-200])
    refused(*with_bad(READERS[command], "bad.parquet"), mentions="bad.parquet")


LONG = "x" * 10_000
CONTENTS = {  # what is wrong inside, as far as a command looks at it, and what the message mentions
    "a text column as score": (
        ("fit", "compare", "evaluate", "update"),
        ("--score", "colour"),
        GOOD,
        "'colour'",
    ),
    "no such column": (
        ("fit", "compare", "evaluate", "update"),
        ("--score", "star"),
        GOOD,
        ("'star'", "'stars'"),
    ),
    "an all-empty score": (
        ("fit", "compare", "evaluate", "update"),
        (),
        HEADER + "".join(f"i{k},s{k % 6},red,{k},1,\n" for k in range(40)),
        "'stars'",
    ),
    "a single score": (("fit",), (), HEADER + "a,s,red,1,2,3\nb,s,red,2,1,\n", "'stars'"),
    "a long cell as score": (
        ("fit", "compare", "evaluate", "update"),
        (),
        HEADER + f"a,s,red,1,2,{LONG}\nb,s,red,2,1,3\n",
        ("'stars'", "xxx…", "data row 1"),
    ),
    "a query that is missing": (
        ("fit", "compare", "rank"),
        (),
        HEADER + "a,,red,1,2,3\nb,s,red,2,1,1\n",
        ("'shop'", "data row 1"),
    ),
    "infinity": (
        ("fit", "compare", "rank"),
        (),
        HEADER + "a,s,red,inf,2,3\nb,s,red,2,1,1\n",
        "'size'",
    ),
}


@pytest.mark.parametrize(
    ("case", "command"),
    [(case, command) for case, (commands, *_) in CONTENTS.items() for command in commands],
)
def test_bad_contents(place, refused, case, command):
    _, options, content, mentions = CONTENTS[case]
    Path("bad.csv").write_text(content)
    refused(*with_bad(READERS[command], "bad.csv"), *options, mentions=mentions)


def test_a_single_query_is_too_few_for_compare(place, refused):
    Path("bad.csv").write_text(HEADER + "".join(f"i{k},s0,red,{k % 7},1,{k}\n" for k in range(40)))
    refused(*with_bad(READERS["compare"], "bad.csv"), mentions=("'shop'", "'stars'"))


@pytest.mark.parametrize(
    ("rows", "mentions"),
    [
        ("winner,loser\ni1,i2\ni3,nobody\n", ("'nobody'", "data row 2", "bad.csv", "good.csv")),
        ("winner,loser\ni1,i1\n", "'i1'"),
        ("winner,looser\ni1,i2\n", ("'loser'", "'looser'")),
        (f"winner,loser\ni1,{LONG}\n", "good.csv"),
    ],
    ids=["unknown item", "an item twice", "no loser", "a long name"],
)
@pytest.mark.parametrize(
    "command", ["fit --comparisons", "evaluate comparisons", "update comparisons"]
)
def test_bad_comparisons(place, refused, command, rows, mentions):
    Path("bad.csv").write_text(rows)
    refused(*with_bad(READERS[command], "bad.csv"), mentions=mentions)


def test_tables_that_look_odd_but_are_sound(place):
    columns = (*SCORES, "--method", "rankrls", "--gamma", "scale", "--quiet")
    Path("crlf.csv").write_bytes(GOOD.replace("\n", "\r\n").encode())
    Path("bom.csv").write_text("\ufeff" + GOOD)
    Path("long.csv").write_text(GOOD.replace("red", LONG))
    for name in ("crlf", "bom", "long"):
        run("fit", f"{name}.csv", *columns, "--out", f"{name}.corank")
        run(
            "rank",
            f"{name}.corank",
            f"{name}.csv",
            "--out",
            f"{name}-ranked.csv",
            "--id",
            "item",
            "--quiet",
        )
    run("rank", "m.corank", "good.csv", "--out", "ranked.csv", "--id", "item", "--quiet")
    for name in ("crlf", "bom", "long"):
        assert Path(f"{name}-ranked.csv").read_text() == Path("ranked.csv").read_text()
    shown = run("inspect", "long.corank").stdout
    assert LONG[:30] not in shown
    assert max(map(len, run("rank", "long.corank", "long.csv").stdout.splitlines())) <= 110


# ---------------------------------------------------------------- features at rank


def test_features_that_are_missing_extra_or_in_another_order(place, refused):
    table = read_table("good.csv")
    run("rank", "m.corank", "good.csv", "--out", "plain.csv", "--id", "item", "--quiet")
    orders = {
        "other.csv": table.column_names[::-1],
        "fewer.csv": ["item", "shop", "colour", "weight"],
    }
    for name, columns in orders.items():
        run_table = table.select(columns)
        Path(name).write_text(run_table.to_pandas().to_csv(index=False))
    table.append_column("extra", pa.array(range(N))).to_pandas().to_csv("more.csv", index=False)
    for name in ("other", "more"):
        run(
            "rank",
            "m.corank",
            f"{name}.csv",
            "--out",
            f"{name}-ranked.csv",
            "--id",
            "item",
            "--quiet",
        )
        assert Path(f"{name}-ranked.csv").read_text() == Path("plain.csv").read_text()
    for words in (
        ("rank", "m.corank", "fewer.csv", "--out", "x.csv"),
        ("suggest", "p.corank", "fewer.csv"),
    ):
        refused(*words, mentions="'size'")
    Path("typo.csv").write_text(GOOD.replace("weight", "wieght"))
    refused("rank", "m.corank", "typo.csv", "--out", "x.csv", mentions=("'weight'", "'wieght'"))
    Path("texts.csv").write_text(GOOD.replace("weight", "weight").replace(",red,", ",red,heavy"))
    refused("rank", "m.corank", "texts.csv", "--out", "x.csv", mentions="'heavy")


# ---------------------------------------------------------------- models

MODEL_READERS = {
    "rank": ("rank", "BAD", "good.csv", "--out", "x.csv"),
    "evaluate": ("evaluate", "BAD", "good.csv"),
    "inspect": ("inspect", "BAD"),
    "explain": ("explain", "BAD", "good.csv", "--id", "i1", "--id", "i2"),
    "suggest": ("suggest", "BAD", "good.csv", "--out", "x.csv"),
    "update": ("update", "BAD", "good.csv", "--out", "x.corank"),
}


def newer(path):
    """A file of a later format, as a later corank would write it."""
    from safetensors import safe_open

    with safe_open("m.corank", framework="np") as file:
        arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        about = json.loads(file.metadata()["corank"])
    save_file(
        arrays,
        path,
        metadata={"corank": json.dumps({**about, "version": 99, "corank": "7.0"}), "sha256": ""},
    )


MODELS = {
    "a missing file": lambda path: None,
    "an empty file": lambda path: path.write_bytes(b""),
    "a folder": lambda path: path.mkdir(),
    "binary junk": lambda path: path.write_bytes(JUNK),
    "text": lambda path: path.write_text(GOOD),
    "a cut-off model": lambda path: path.write_bytes(Path("m.corank").read_bytes()[:-50]),
    "a changed model": lambda path: path.write_bytes(Path("m.corank").read_bytes()[:-3] + b"abc"),
    "another safetensors file": lambda path: save_file({"a": np.zeros(3)}, path),
    "a later version": newer,
}


@pytest.mark.parametrize(
    ("command", "case"),
    [
        (command, case)
        for command in MODEL_READERS
        for case in MODELS
        if command == "rank" or case == "text"
    ],
)
def test_a_bad_model(place, refused, command, case):
    MODELS[case](Path("bad.corank"))
    refused(*with_bad(MODEL_READERS[command], "bad.corank"), mentions="bad.corank")


# ---------------------------------------------------------------- outputs

WRITERS = {
    "fit": (("fit", "good.csv", *SCORES, "--method", "rankrls", "--out"), "x.corank"),
    "fit --report": (
        ("fit", "good.csv", *SCORES, "--method", "rankrls", "--out", "y.corank", "--report"),
        "x.html",
    ),
    "rank": (("rank", "m.corank", "good.csv", "--out"), "x.csv"),
    "evaluate": (("evaluate", "p.corank", "pairs.csv", "--items", "good.csv", "--out"), "x.jsonl"),
    "compare": (("compare", "good.csv", *SCORES, "--keep", "kept", "--report"), "x.html"),
    "explain": (
        ("explain", "m.corank", "good.csv", "--id", "i1", "--id", "i2", "--report"),
        "x.html",
    ),
    "suggest": (("suggest", "p.corank", "good.csv", "--out"), "x.parquet"),
    "update": (("update", "m.corank", "good.csv", "--out"), "x.corank"),
    "demo": (("demo", "--out"), "x.corank"),
    "demo --report": (("demo", "--out", "y.corank", "--report"), "x.html"),
    "federated predict": (
        (
            "federated",
            "predict",
            "party/coordinator/coordinator.toml",
            "good.csv",
            "--id",
            "item",
            "--out",
        ),
        "x.csv",
    ),
}
PLACES = {
    "a folder that is not there": (lambda name: f"none/{name}", lambda path: None),
    "a file in place of its folder": (
        lambda name: f"file/{name}",
        lambda path: Path("file").write_text("a"),
    ),
    "a folder of that name": (lambda name: name, lambda path: path.mkdir()),
    "a file that is there": (lambda name: name, lambda path: path.write_text("kept")),
    "a device": (lambda name: name, lambda path: path.symlink_to("/dev/null")),
}


@pytest.mark.parametrize(
    ("command", "case"),
    [
        (command, case)
        for command in WRITERS
        for case in PLACES
        if command == "rank" or case == "a file that is there"
    ],
)
def test_a_place_that_cannot_be_written(place, refused, command, case):
    words, name = WRITERS[command]
    where, make = PLACES[case]
    target = Path(where(name))
    make(target)
    refused(*words, target, *(["--force"] if case == "a device" else []), mentions=target.parts[0])
    if case == "a file that is there":
        assert target.read_text() == "kept"


@pytest.mark.parametrize("command", ["rank", "evaluate", "suggest", "federated predict"])
def test_the_ending_of_a_result_is_checked_before_any_work(place, refused, command):
    words, _ = WRITERS[command]
    for name in ("x.xlsx", "x.svm", "x"):
        refused(*words, name, mentions=f"--out {name}")
    refused(*words, "x.csv", "--out-format", "jsonl", mentions="--out-format")
    refused(*words, "-", "--json", mentions="--json")


# ---------------------------------------------------------------- the other commands


@pytest.mark.parametrize("command", ["coordinate", "join"])
@pytest.mark.parametrize(
    "content",
    [None, b"", JUNK, b"run = 1\ncolour = 2\n"],
    ids=["missing", "empty", "junk", "unknown key"],
)
def test_bad_settings(place, refused, command, content):
    if content is not None:
        Path("bad.toml").write_bytes(content)
    refused("federated", command, "bad.toml", mentions="bad.toml")


@pytest.mark.parametrize("case", ["a missing file", "duplicate columns", "no ending"])
def test_a_site_with_a_bad_table(place, refused, case):
    name, content = TABLES[case]
    if content is not None:
        (Path("party/north") / name).write_bytes(content)
    settings = Path("party/north/site.toml")
    settings.write_text(
        settings.read_text().replace("rows.csv", name).replace('"score"', '"stars"')
    )
    refused("federated", "join", settings, mentions=name)


def test_federated_init_keeps_what_is_there(place, refused):
    Path("file").write_text("a")
    refused("federated", "init", "file/party", "--site", "a", mentions="file")
    refused("federated", "init", "party", "--site", "north", mentions="party/north")
    refused("federated", "init", "other", "--site", "a/b", mentions="a/b")
