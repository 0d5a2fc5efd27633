"""Model files that earlier versions wrote still load, predict what they predicted, grow, and can be
saved again.

`tests/models/write_models.py` says how the files were made.
"""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from edited_files import rewritten, round_trip
from scipy import sparse

import corank
from corank import RankRLS, TableEncoder, load

pytestmark = pytest.mark.usefixtures("one_blas_thread")

FOLDERS = sorted(
    path.parent for path in (Path(__file__).parents[1] / "models").glob("*/predictions.json")
)
KEPT = {folder.name: json.loads((folder / "predictions.json").read_text()) for folder in FOLDERS}
FILES = [(folder.name, name) for folder in FOLDERS for name in KEPT[folder.name]["models"]]
files = pytest.mark.parametrize(("version", "name"), FILES, ids=str)

# Kernels of other processors and BLAS libraries round otherwise, in the last digits; anything more
# is another model.
TOLERANCE = 1e-9  # of the spread of what is compared


def file_of(version, name):
    return Path(__file__).parents[1] / "models" / version / f"{name}.safetensors"


def rows_for(model, version, kind):
    """The rows whose predictions were kept, as this model takes them."""
    kept = KEPT[version]
    if kind == "table":
        return model.encoder_.transform(pd.DataFrame(kept["table"]))
    if kind == "csr":
        return sparse.csr_array(np.array(kept["csr"]))
    return (
        pd.DataFrame(kept["dense"], columns=kept["names"])
        if kind == "names"
        else np.array(kept["dense"])
    )


def answer(model, method, X):
    return model.predict(X, return_std=True)[1] if method == "std" else getattr(model, method)(X)


def check_answers(model, X, expected):
    for method, values in expected.items():
        values = np.array(values)
        spread = np.ptp(values)
        np.testing.assert_allclose(
            answer(model, method, X), values, rtol=0, atol=TOLERANCE * spread, err_msg=method
        )


@files
def test_old_models_predict_what_they_predicted(version, name):
    entry = KEPT[version]["models"][name]
    model = load(file_of(version, name))
    assert type(model).__name__ == entry["learner"]
    check_answers(model, rows_for(model, version, entry["rows"]), entry["says"])


@files
def test_old_models_are_saved_and_loaded_again(version, name, tmp_path):
    entry = KEPT[version]["models"][name]
    model = load(file_of(version, name))
    again = round_trip(model, tmp_path / "again.corank")
    X = rows_for(model, version, entry["rows"])
    for method in entry["says"]:
        np.testing.assert_array_equal(
            answer(again, method, X), answer(model, method, X), err_msg=method
        )
    assert again.table_ == model.table_


@pytest.mark.parametrize(
    ("version", "name"),
    [
        (version, name)
        for version, name in FILES
        if "says_after_update" in KEPT[version]["models"][name]
    ],
    ids=str,
)
def test_old_models_grow(version, name):
    entry, new = KEPT[version]["models"][name], KEPT[version]["update"]
    model = load(file_of(version, name))
    X = rows_for(model, version, entry["rows"])
    model.update(X, new["y"], qid=new["qid"])
    if entry["learner"] not in ("AutoRanker", "AutoRegressor"):
        check_answers(model, X, entry["says_after_update"])
        return
    # fitted anew, and weighed as averages are today
    for method, values in entry["says_after_update"].items():
        assert np.corrcoef(answer(model, method, X), values)[0, 1] > 0.95


def test_models_from_before_numbers_had_units_load(tmp_path):
    """Their columns have a `date_format` instead of a `format`, and no values that are clipped."""
    days = [f"{day:02d}/0{month}/2024" for month in (1, 2, 3) for day in (5, 14, 27)]
    frame = pd.DataFrame(
        {"day": days, "size": np.arange(9.0), "colour": ["red", "blue", "green"] * 3}
    )
    encoder = TableEncoder().fit(frame)
    model = RankRLS(alpha=1.0, gamma=0.1).fit(encoder.transform(frame), np.arange(9.0))
    path = tmp_path / "model.corank"
    model.save(path, encoder=encoder)

    def change(header, arrays):
        del header["encoder"]["identity"], arrays["encoder.low"], arrays["encoder.high"]
        for column in header["encoder"]["columns"]:
            column["date_format"] = column.pop("format")
            del column["clips"]

    rewritten(path, change)
    loaded = load(path)
    assert loaded.encoder_.summary() == encoder.summary()
    np.testing.assert_array_equal(loaded.predict(frame), model.predict(encoder.transform(frame)))


def test_every_learner_has_a_file():
    """Those of automatic learners hold the learner that version 0.1.0 chose."""
    named = {name.split("-")[0] for _, name in FILES}
    learners = {name for name in corank.__all__ if hasattr(getattr(corank, name), "save")}
    assert learners <= named


# ---- files of the first format

OLD_X = np.random.default_rng(0).standard_normal((12, 2)).round(3)
OLD_Y = (OLD_X[:, 0] - OLD_X[:, 1] ** 2).round(3)


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        (
            "rankrls-all-rows",
            [1.1642661103, 1.5313654407, 0.5282357081],
            [0.9537752907, 1.2174134158, 0.2954560462],
        ),
        (
            "rls-subset",
            [-0.0782153499, 0.0716672947, -0.6179028201],
            [-0.1570984781, 0.1098896222, -0.6014085136],
        ),
    ],
)
def test_files_of_the_first_format_load_predict_and_grow(name, before, after):
    """Written at commit 00b6001: whatever is added to the format, they stay readable."""
    model = load(Path(__file__).parents[1] / "models" / f"{name}.safetensors")
    np.testing.assert_allclose(model.predict(OLD_X[:3]), before, rtol=1e-8)
    qid = [0] * 4 if name == "rankrls-all-rows" else None
    np.testing.assert_allclose(
        model.update(OLD_X[:4] + 1, OLD_Y[:4], qid=qid).predict(OLD_X[:3]), after, rtol=1e-8
    )
