"""Settings files: every mistake is named with its file, its word and what to do."""

import pytest
from tests.federated.site_processes import corank, edit, make_run

from corank_federated.settings import SettingsError, read_coordinator, read_site


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            ('score = "score"', 'scor = "score"'),
            r"site.toml: score in \[data\] is missing; it should be text",
        ),
        (('id = "id"', 'id = "id"\nidd = 3'), r"idd in \[shared\] is not known; did you mean 'id'"),
        (
            ('task = "regression"', 'task = "sorting"'),
            "must be 'regression' or 'ranking', got 'sorting'",
        ),
        (
            ('task = "regression"', 'task = "regression"\nmethod = "auto"'),
            "averages need all scored rows in one place",
        ),
        (
            ("alpha = 0.5", "alpha = true"),
            r"alpha in \[learner\] should be a number, 'tune' or a list, got True",
        ),
        (("alpha = 0.5", 'weighting = "size"'), r"weighting in \[learner\] is not known"),
        (("rounds = 200", "rounds = 0"), "rounds must be a whole number from 1"),
        (('file = "shared.csv"', ""), "needs either file or"),
        (('name = "north"', 'name = "North Pole"'), "small letters, digits and hyphens"),
        (('name = "north"', "name = "), "is not TOML"),
        (('model = "north.corank"', "patience = -1"), "patience must be greater than 0"),
    ],
)
def test_a_mistake_in_a_sites_file_is_named(tmp_path, change, words):
    make_run(tmp_path)
    edit(tmp_path / "north/site.toml", change)
    with pytest.raises(ValueError, match=words):
        read_site(tmp_path / "north/site.toml")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            ("agreement = 0.5", "agreement = 0"),
            "coordinator.toml: agreement must be greater than 0",
        ),
        (('"stop"', '"wait"'), "on_missing must be 'stop' or 'continue'"),
        (("report = true", 'report = "yes"'), "report should be true or false, got 'yes'"),
        (
            ('schedule = "sequential"', 'shedule = "parallel"'),
            "shedule is not known; did you mean 'schedule'",
        ),
        (("address", "# address"), "address is missing"),
        (('name = "south"', 'name = "north"'), "names 'north' twice"),
        (('address = "127.0.0.1:', 'address = "127.0.0.1" # '), "address should be host:port"),
        (
            ("max_rounds", "max_items = 0\nmax_rounds"),
            "max_items should be a whole number from 1, got 0",
        ),
    ],
)
def test_a_mistake_in_the_coordinators_file_is_named(tmp_path, change, words):
    make_run(tmp_path)
    edit(tmp_path / "coordinator/coordinator.toml", change)
    with pytest.raises(SettingsError, match=words):
        read_coordinator(tmp_path / "coordinator/coordinator.toml")


def failed(capsys, *words):
    with pytest.raises(AssertionError):
        corank(*words)
    return capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            ('score = "score"', 'score = "scores"'),
            "there is no score column 'scores'; did you mean 'score'?",
        ),
        (('file = "shared.csv"', 'file = "other.csv"'), "there is no file"),
        (('id = "id"', 'id = "name"'), "there is no id column 'name'"),
        (('score = "score"', 'score = "z"'), "the shared items have no column 'score'"),
        (("alpha = 0.5", "alpha = -1.0"), "alpha"),
    ],
)
def test_join_says_what_is_wrong_with_the_data_before_dialling(tmp_path, capsys, change, words):
    make_run(tmp_path)
    edit(tmp_path / "north/site.toml", change, ('model = "north.corank"', "patience = 0.1"))
    error = failed(capsys, "federated", "join", tmp_path / "north/site.toml")
    assert words in error


def test_join_keeps_a_model_that_is_there(tmp_path, capsys):
    make_run(tmp_path)
    (tmp_path / "north/north.corank").write_text("mine")
    assert "use --force to replace it" in failed(
        capsys, "federated", "join", tmp_path / "north/site.toml"
    )
    assert "needs allowed = true" in failed(
        capsys, "federated", "join", tmp_path / "north/site.toml", "--serve"
    )


def test_shared_items_from_a_recipe(tmp_path):
    recipe = (
        '[shared.synthetic]\nitems = 30\nseed = 4\ncolumns = [\n  { name = "x", low = 0, high ='
        " 1 }, "
    )
    recipe += '{ name = "y", mean = 0, deviation = 1 },\n  { name = "z", low = -1, high = 1 },\n]'
    make_run(tmp_path, site=[('file = "shared.csv"\nid = "id"', recipe)])
    from tests.federated.site_processes import in_one_place

    models = in_one_place(tmp_path)
    assert models["north"]._n_unscored == 30
