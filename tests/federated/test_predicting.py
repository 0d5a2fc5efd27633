"""Joint predictions: rows or ids go to the sites, scores come back, within what each site allows."""

import numpy as np
import pyarrow as pa
import pytest
from tests.federated.site_processes import NAMES, edit, in_one_place, make_run

from corank import load
from corank.tables import read_table
from corank_federated import InProcess, Message, RunStopped
from corank_federated.cli import predictor_of, site_of
from corank_federated.messages import decoded
from corank_federated.predicting import items_of, joint_prediction, question, questions
from corank_federated.settings import read_site


@pytest.fixture
def folder(tmp_path):
    make_run(tmp_path)
    for name, model in in_one_place(tmp_path).items():
        encoder = site_of(read_site(tmp_path / name / "site.toml"))[1]
        model.save(tmp_path / name / f"{name}.corank", encoder=encoder)
    return tmp_path


def servers(folder):
    return InProcess([predictor_of(read_site(folder / name / "site.toml")) for name in NAMES])


def test_rows_are_scored_by_every_site(folder):
    table = read_table(folder / "north/shared.csv", text=["id"]).slice(3, 9)
    found = joint_prediction(servers(folder), NAMES, table)
    for name in NAMES:
        np.testing.assert_array_equal(
            found[name], load(folder / name / f"{name}.corank").predict(table)
        )


def test_ids_are_enough_where_sites_have_their_own_table(folder):
    table = read_table(folder / "north/shared.csv", text=["id"]).slice(3, 9)
    plain = joint_prediction(servers(folder), NAMES, table)
    for name in NAMES:
        edit(folder / name / "site.toml", ("allowed = false", 'items = "shared.csv"'))
    by_id = joint_prediction(servers(folder), NAMES, table.select(["id"]))
    for name in NAMES:
        np.testing.assert_array_equal(by_id[name], plain[name])
    with pytest.raises(
        RunStopped, match="site 'north' does not predict: 'north' does not know the item 'who'"
    ):
        joint_prediction(servers(folder), NAMES, pa.table({"id": ["who"]}))


def test_a_site_scores_only_so_many_rows(folder):
    edit(folder / "south/site.toml", ("allowed = false", "rows = 10"))
    channel, table = (
        servers(folder),
        read_table(folder / "north/shared.csv", text=["id"]).slice(0, 8),
    )
    joint_prediction(channel, NAMES, table)
    with pytest.raises(RunStopped, match="'south' scores 2 more items at most; raise rows"):
        joint_prediction(channel, NAMES, table)


def test_a_missing_column_is_named(folder):
    table = read_table(folder / "north/shared.csv", text=["id"]).drop_columns("y")
    with pytest.raises(RunStopped, match=r"site 'north' does not predict: .*'y'"):
        joint_prediction(servers(folder), NAMES, table)


@pytest.mark.parametrize(
    "change",
    [
        {"rows": 3},
        {"columns": ["x"]},
        {"texts": {"id": "abc"}},
        {"texts": {"id": [1, 10**400]}},
        {"columns": ["id", "x", "y"]},
    ],
)
def test_items_that_make_no_table_are_refused(folder, change):
    asked = question(
        pa.table({"id": ["a", "b"], "x": [1.0, 2.0], "y": [1, 2], "z": [0.0, 1.0]}), "rows"
    )
    server = predictor_of(read_site(folder / "north/site.toml"))
    reply = server.handle(Message("predict", {**asked.fields, **change}, asked.numbers))
    assert reply.numbers is None
    assert "do not make a table" in reply["reason"]


def test_ranking_sites_are_made_from_their_settings(tmp_path):
    make_run(tmp_path, ranking=True)
    models = in_one_place(tmp_path)
    assert {type(model).__name__ for model in models.values()} == {"CoRankRLS"}


@pytest.mark.parametrize("kind", ["numbers", "texts"])
def test_wide_items_are_asked_about_in_messages_that_sites_take(kind):
    n = 6_000
    wide = {
        "numbers": {f"c{k}": np.arange(n) + k for k in range(250)},
        "texts": {"t": ["word " * 300] * n},
    }
    table = pa.table({"id": [f"i{k}" for k in range(n)], **wide[kind]})
    asked = [decoded(message.encoded(), max_values=1_000_000) for message in questions(table)]
    assert len(asked) > 2
    assert (
        pa.concat_tables([items_of(message) for message in asked])["id"].to_pylist()
        == table["id"].to_pylist()
    )
