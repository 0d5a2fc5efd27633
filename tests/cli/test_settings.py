"""Settings of learners in the shell: each does what the parameter of that name does in Python, and
is refused where a method does not have it.
"""

import json

import numpy as np
import pandas as pd
import pytest
from command_line import run, shell

from corank import load
from corank.core.registry import RECORDS

pytestmark = pytest.mark.filterwarnings("ignore:.*scored and unscored rows:UserWarning")
ROLES = ("--score", "rating", "--query", "user", "--id", "book")
FEATURES = ["size", "weight", "price", "age"]
METHODS = {record.method: record.name for record in RECORDS.values()}


@pytest.fixture(scope="module")
def shelf(tmp_path_factory):
    """Books, a quarter of them and one whole user without a rating, and books without any."""
    folder = tmp_path_factory.mktemp("shelf")
    rng = np.random.default_rng(0)
    books = pd.DataFrame(rng.normal(size=(60, 4)).round(3), columns=FEATURES)
    books.insert(0, "book", [f"b{row}" for row in range(len(books))])
    books.insert(1, "user", [f"u{row % 6}" for row in range(len(books))])
    books["rating"] = (books["size"] - np.sin(books["price"]) + rng.normal(0, 0.1, 60)).round(3)
    missing = (np.arange(60) % 4 == 1) & (books["user"] != "u0") | (books["user"] == "u5")
    books.loc[missing, "rating"] = np.nan
    books[:48].to_csv(folder / "books.csv", index=False)
    books[48:].drop(columns="rating").to_csv(folder / "more.csv", index=False)
    return folder


@pytest.fixture
def folder(shelf, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("books.csv", "more.csv"):
        (tmp_path / name).write_text((shelf / name).read_text())
    return tmp_path


SETTINGS = {
    "rankrls": ({"beta": 0.3, "gamma": 0.2}, {}),
    "rls": ({"alpha": "mean-length", "gamma": "mean-distance"}, {}),
    "corankrls": ({"agreement": 0.2, "alpha": 0.5, "solver": "coordinate"}, {"beta": 0.1}),
    "corls": ({"agreement": [0.1, 1.0], "alpha": 0.5, "solver": "accelerated"}, {}),
    "kpcrank": ({"n_components": 4, "alpha": 0.1}, {}),
    "pursuit": ({"n_atoms": 4, "refit": "basic", "beta": 0.5}, {}),
    "matching": ({"n_atoms": 3, "refit": "pre"}, {}),
    "copursuit": ({"n_atoms": 3, "agreement": 0.5, "refit": "final"}, {"beta": 0.2}),
    "transductive": ({"pull": 2.0, "alpha": 0.5, "weighting": "size"}, {}),
}
IN_SHELL = {"n_atoms": "atoms", "n_components": "components"}


def words_of(settings):
    for name, value in settings.items():
        text = ",".join(map(str, value)) if isinstance(value, list) else str(value)
        yield from (f"--{IN_SHELL.get(name, name)}", text)


def refitted(model, *names):
    """The learner with the parameters of a loaded one, fitted in Python to the rows of tables."""
    table = pd.concat([pd.read_csv(name) for name in names], ignore_index=True)
    queries = table["user"].to_numpy(dtype=object)
    queries[48:] = [f"{label} elsewhere" for label in queries[48:]]
    again = type(model)(**model.get_params(deep=False))
    return again.fit(model.encoder_.transform(table[FEATURES]), table["rating"], qid=queries)


@pytest.mark.parametrize("method", SETTINGS)
def test_options_are_the_parameters_of_the_learner(folder, method):
    asked, more = SETTINGS[method]
    settings = asked | more
    words = ("fit", "books.csv", *ROLES, "--method", method, *words_of(settings))
    said = json.loads(run(*words, "--out", "m.corank", "--json", "--no-effect").stdout)
    assert said["method"] == METHODS[method]
    model = load("m.corank")
    parameters = model.get_params(deep=False)
    assert {name: parameters[name] for name in settings} == settings
    for name in ("agreement", "pull"):
        if name in settings:
            assert said[name] == vars(model)[f"{name}_"]
    run("rank", "m.corank", "more.csv", "--out", "ranked.csv", "--quiet")
    ranked = pd.read_csv("ranked.csv").set_index("book")["score"]
    new = pd.read_csv("more.csv")
    expected = refitted(model, "books.csv").predict(model.encoder_.transform(new[FEATURES]))
    np.testing.assert_allclose(ranked[new["book"]], expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("method", ["copursuit", "transductive"])
def test_rows_of_a_second_file_are_unscored(folder, method):
    words = ("fit", "books.csv", *ROLES, "--method", method, "--unscored", "more.csv")
    run(*words, "--out", "m.corank", "--quiet", "--no-effect")
    model = load("m.corank")
    assert model.n_unscored == 12 + int(pd.read_csv("books.csv")["rating"].isna().sum())
    again = refitted(model, "books.csv", "more.csv")
    X = model.encoder_.transform(pd.read_csv("more.csv")[FEATURES])
    np.testing.assert_allclose(model.predict(X), again.predict(X), rtol=1e-9, atol=1e-9)


def test_atoms_of_views_are_called_by_their_ids(folder):
    words = ("fit", "books.csv", *ROLES, "--method", "copursuit", "--atoms", "3")
    run(*words, "--out", "m.corank", "--quiet")
    model, books = load("m.corank"), pd.read_csv("books.csv")
    rows = np.stack(model.steps_, axis=1).ravel()
    assert list(model.explain().names) == books["book"][rows].tolist()
    with pytest.raises(ValueError, match="names must have one list per view"):
        model.name_atoms([["a"], ["b"]])
    run("inspect", "m.corank")
    run("explain", "m.corank", "books.csv", "--id", "b0", "--id", "b6")


@pytest.mark.parametrize("option", ["agreement", "solver"])
def test_settings_of_views_make_the_default_method_one_with_views(folder, option):
    value = {"agreement": "0.5", "solver": "coordinate"}[option]
    words = ("fit", "books.csv", *ROLES, f"--{option}", value, "--alpha", "1", "--no-effect")
    result = run(*words, "--out", "m.corank")
    assert "this is --method corankrls" in result.stderr
    assert load("m.corank").get_params()[option] == (0.5 if option == "agreement" else value)


WRONG = {
    "beta": (["--method", "rls", "--beta", "0.5"], ("--beta", "--method rls")),
    "beta above 1": (["--method", "rankrls", "--beta", "2"], ("beta", "2")),
    "agreement": (["--method", "rankrls", "--agreement", "1"], ("--agreement", "--method rankrls")),
    "agreement in words": (["--agreement", "much"], ("agreement", "'much'")),
    "refit": (["--method", "rankrls", "--refit", "back"], ("--refit", "--method rankrls")),
    "refit of views": (["--method", "copursuit", "--refit", "pre"], ("refit", "'pre'")),
    "pull": (["--method", "rankrls", "--pull", "1"], ("--pull", "--method transductive")),
    "pull of 0": (["--method", "transductive", "--pull", "0"], ("pull", "0")),
    "pull by default": (["--pull", "1"], ("--pull", "--method auto")),
    "solver": (["--method", "copursuit", "--solver", "direct"], ("--solver", "copursuit")),
    "solver unknown": (["--method", "corankrls", "--solver", "fast"], ("solver", "'fast'")),
    "basis and views": (["--method", "copursuit", "--basis", "all"], ("--basis", "copursuit")),
    "passes": (["--method", "transductive", "--passes"], ("--passes", "transductive")),
    "unscored": (["--method", "pursuit", "--unscored", "more.csv"], ("--unscored", "pursuit")),
    "unscored folder": (["--method", "transductive", "--unscored", "."], "in memory"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_settings(folder, refused, case):
    words, mentions = WRONG[case]
    refused("fit", "books.csv", *ROLES, "--out", "m.corank", *words, mentions=mentions)


@pytest.mark.parametrize("method", ["pursuit", "copursuit", "transductive"])
def test_the_installed_command_knows_them(folder, method):
    asked, more = SETTINGS[method]
    settings = asked | more
    words = ("fit", "books.csv", *ROLES, "--method", method, *words_of(settings))
    done = shell(*words, "--out", "m.corank")
    assert done.exit_code == 0, done.output
    assert f"{METHODS[method]} fitted on books.csv" in done.stdout
    parameters = load("m.corank").get_params(deep=False)
    assert {name: parameters[name] for name in settings} == settings
