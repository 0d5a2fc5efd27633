"""One effect per item: its kernel against a literal one, files, and what it brings to simulated
judges.
"""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from edited_files import rewritten, round_trip

from corank import AutoRanker, Candidate, TableEncoder, load
from corank.encode.kinds import item_codes
from corank.learners.average.encoding import IDENTITY, STANDARD
from corank.learners.average.expansions import Expansions
from corank.learners.average.fitting import fit_average
from corank.learners.average.model import compared_units
from corank.learners.average.posterior import CandidateProcess, EncodedBlock
from corank.learners.average.similarity import Distances, Space
from corank.metrics import disagreement_error

rng = np.random.default_rng(3)
N = 20
SCORED = {STANDARD: rng.standard_normal((N, 4)), IDENTITY: np.arange(N, dtype=float)[:, None]}
NEW = {
    STANDARD: rng.standard_normal((7, 4)),
    IDENTITY: np.array([[3.0], [3], [4], [50], [51], [-1], [-2]]),
}
SPACE = Space(SCORED, view_columns={STANDARD: [np.arange(2), np.arange(2, 4)]})
WINNERS, LOSERS = rng.integers(0, 10, 30), rng.integers(10, N, 30)
UNITS = compared_units(WINNERS, LOSERS, np.ones(30), np.ones(30), np.arange(30), N)

candidates = pytest.mark.parametrize(
    "candidate",
    [
        Candidate(identity=1.0),
        Candidate(kernel="linear", identity=0.3),
        Candidate(width=2.0, identity=0.6),
        Candidate(kernel="laplacian", views="sum", identity=0.5),
    ],
    ids=lambda candidate: candidate.describe(),
)


def literal(candidate, left, right):
    """(1 − identity) · the mean kernel of the columns + identity · [same item]."""
    same = (left[IDENTITY] == right[IDENTITY].T).astype(float)
    if candidate.identity == 1:
        return same
    parts = SPACE.similarities(
        Candidate(kernel=candidate.kernel, width=candidate.width, views=candidate.views)
    )
    columns = np.mean([Distances(left, right).kernel(part) for part in parts], axis=0)
    return (1 - candidate.identity) * columns + candidate.identity * same


@candidates
def test_kernels_are_those_of_columns_and_of_the_same_item(candidate):
    built = SPACE.built(candidate)
    np.testing.assert_allclose(SPACE.kernel(built), literal(candidate, SCORED, SCORED))
    cross = SPACE.kernel_to_scored(built, Distances(NEW, SCORED), Distances(NEW, {}))
    np.testing.assert_allclose(cross, literal(candidate, NEW, SCORED))
    square = literal(candidate, NEW, NEW)
    np.testing.assert_allclose(SPACE.square_kernel(built, NEW), square)
    np.testing.assert_allclose(SPACE.variances(built, NEW), np.diag(square))


def block(rows):
    return EncodedBlock(rows, len(next(iter(rows.values()))), SPACE)


def covariances(process, rows):
    """In units of the kernel."""
    return process.covariance(block(rows))[1] / process.variance


def variances_of_differences(process, left, right):
    """In units of the kernel."""
    return process.differences(block(left), block(right))[1] / process.variance


@candidates
def test_posteriors_are_those_of_a_gaussian_process(candidate):
    [fitted] = fit_average(SPACE, [candidate], UNITS, ranks=True, seed=0).candidates
    incidence = np.eye(N)[WINNERS] - np.eye(N)[LOSERS]
    cross, square = literal(candidate, NEW, SCORED) @ incidence.T, literal(candidate, NEW, NEW)
    system = incidence @ literal(candidate, SCORED, SCORED) @ incidence.T + fitted.alpha * np.eye(
        len(WINNERS)
    )
    covariance = square - cross @ np.linalg.solve(system, cross.T)
    process = CandidateProcess.of(fitted, SPACE, UNITS, np.asarray)
    first, second = np.array([0, 0, 2, 3]), np.array([2, 3, 4, 5])
    left, right = ({name: rows[chosen] for name, rows in NEW.items()} for chosen in (first, second))
    expected = (
        np.diag(covariance)[first] + np.diag(covariance)[second] - 2 * covariance[first, second]
    )
    np.testing.assert_allclose(variances_of_differences(process, left, right), expected, atol=1e-8)
    own = np.eye(7)[[0, 2, 3]] - 1 / 7  # of the differences from a mean, levels fall out
    np.testing.assert_allclose(
        own @ covariances(process, NEW) @ own.T, own @ covariance @ own.T, atol=1e-8
    )


def test_an_item_is_as_good_as_itself_and_an_unknown_one_has_no_effect():
    [fitted] = fit_average(SPACE, [Candidate(identity=1.0)], UNITS, ranks=True, seed=0).candidates
    [values] = Expansions([fitted], SCORED, {}).values(NEW)
    assert values[0] == values[1] != values[2]
    np.testing.assert_allclose(values[3:], fitted.level)
    process = CandidateProcess.of(fitted, SPACE, UNITS, np.asarray)
    left, right = ({name: rows[at] for name, rows in NEW.items()} for at in ([0, 3], [1, 4]))
    np.testing.assert_allclose(variances_of_differences(process, left, right), [0, 2], atol=1e-9)


# ---- names


def codes(values):
    return item_codes(pa.chunked_array([pa.array(values)]), "name")


def test_a_name_has_one_code_however_it_is_written():
    assert codes([7]) == codes([7.0]) == codes(["7"]) == codes([" 7 "])
    many = codes([f"item {number}" for number in range(10_000)])
    assert len(np.unique(many)) == 10_000
    assert (many == many.astype(np.int64)).all()


def test_rows_without_a_name_are_items_of_their_own():
    values = codes([None, "a", "", "a", None])
    assert values[1] == values[3] >= 0
    assert (values[[0, 2, 4]] < 0).all()
    assert len(np.unique(values)) == 4


def test_no_encoding_and_no_view_has_the_identity():
    table, first, second, _ = judged("mixed", 0)
    model = fitted_on(table, first, second)
    encoder = model.encoder_
    [group] = [group for group in encoder.groups_ if group.kind == "identity"]
    column = group.columns[0]
    assert all(column not in view.columns for view in encoder.views())
    shown = {encoding.name: list(encoding.columns) for encoding in model._model.encodings}
    assert shown.pop(IDENTITY) == [column]
    assert all(column not in columns for columns in shown.values())


# ---- simulated judges


def judged(kind, seed, n=100, n_answers=40):
    """Items with names and columns, comparisons of which a tenth are wrong, and how good the items
    are.
    """
    rng = np.random.default_rng([seed, n, n_answers])
    X = rng.standard_normal((n, 4))
    by_columns, own = X @ [1.0, -1.0, 0.5, 0.0] / 1.5, rng.standard_normal(n)
    quality = {"columns": by_columns, "names": own, "mixed": (by_columns + own) / np.sqrt(2)}[kind]
    pairs = np.argwhere(np.triu(np.ones((n, n)), 1))
    first, second = pairs[rng.choice(len(pairs), n_answers, replace=False)].T
    won = (quality[first] > quality[second]) == (rng.random(n_answers) > 0.1)
    table = pd.DataFrame(X, columns=["size", "age", "price", "weight"]).assign(
        name=[f"item {at}" for at in range(n)]
    )
    return table, np.where(won, first, second), np.where(won, second, first), quality


def fitted_on(table, winners, losers):
    encoder = TableEncoder(identity=["name"]) if "name" in table else None
    return AutoRanker(encoder=encoder).fit_comparisons(table, winners, losers)


def mean_errors(kind, n, n_answers, columns=("names", "columns", "both")):
    """The mean share of misordered pairs with names alone, columns alone and both."""
    errors = {name: [] for name in columns}
    for seed in range(6):
        table, winners, losers, quality = judged(kind, seed, n, n_answers)
        tables = {"names": table[["name"]], "columns": table.drop(columns="name"), "both": table}
        for name in columns:
            predictions = fitted_on(tables[name], winners, losers).predict(tables[name])
            errors[name].append(disagreement_error(quality, predictions))
    return {name: np.mean(values) for name, values in errors.items()}


def test_names_alone_are_learned_as_well_as_by_bradley_and_terry():
    few = mean_errors("names", 30, 30, ["names"])["names"]
    many = mean_errors("names", 30, 120, ["names"])["names"]
    assert many < 0.2 < few < 0.35
    reference = []
    for seed in range(6):
        _, winners, losers, quality = judged("names", seed, 30, 120)
        reference.append(disagreement_error(quality, bradley_terry(winners, losers, 30)))
    assert many == pytest.approx(np.mean(reference), abs=0.02)


def bradley_terry(winners, losers, n):
    """Strengths (n,) under a standard normal prior, by Newton's method."""
    incidence = np.eye(n)[winners] - np.eye(n)[losers]
    strengths = np.zeros(n)
    for _ in range(20):
        chance = 1 / (1 + np.exp(-incidence @ strengths))
        hessian = np.eye(n) + incidence.T @ ((chance * (1 - chance))[:, None] * incidence)
        strengths -= np.linalg.solve(hessian, strengths - incidence.T @ (1 - chance))
    return strengths


def test_names_make_up_for_columns_that_say_nothing():
    errors = mean_errors("names", 100, 40)
    assert errors["both"] < errors["columns"] - 0.02
    assert errors["both"] < errors["names"] + 0.03


def test_names_do_no_harm_beside_columns_that_say_everything():
    errors = mean_errors("columns", 100, 40)
    assert errors["both"] < 1.02 * errors["columns"]
    assert errors["both"] < errors["names"] - 0.1


@pytest.mark.slow
def test_names_and_columns_together_are_better_than_either():
    errors = mean_errors("mixed", 50, 120)
    assert errors["both"] < min(errors["names"], errors["columns"]) - 0.005


# ---- files and tables


@pytest.mark.parametrize(
    "columns", [["name"], ["name", "size", "age"]], ids=["names", "names and columns"]
)
def test_a_saved_model_says_the_same(columns, tmp_path):
    table, winners, losers, _ = judged("mixed", 1, 30, 60)
    table = table[columns]
    model = fitted_on(table, winners, losers)
    assert any(line.candidate.identity for line in model.candidates_)
    loaded = round_trip(model, tmp_path / "m.corank")
    for expected, values in zip(
        model.predict(table, return_std=True), loaded.predict(table, return_std=True), strict=True
    ):
        np.testing.assert_array_equal(values, expected)
    first, second = table.iloc[:10], table.iloc[10:20]
    np.testing.assert_array_equal(
        loaded.predict_comparison(first, second), model.predict_comparison(first, second)
    )
    np.testing.assert_array_equal(loaded.suggest(table, 3), model.suggest(table, 3))
    assert model.predict_comparison(first, first).tolist() == [0.5] * 10


def test_a_file_without_the_word_identity_loads(tmp_path):
    table, winners, losers, _ = judged("columns", 0)
    table = table.drop(columns="name").assign(kind=list("ab") * 50)
    model = AutoRanker().fit_comparisons(table, winners, losers)
    model.save(tmp_path / "m.corank")

    def without(value):
        if isinstance(value, dict):
            return {key: without(entry) for key, entry in value.items() if key != "identity"}
        return [without(entry) for entry in value] if isinstance(value, list) else value

    rewritten(tmp_path / "m.corank", lambda header, arrays: header.update(without(header)))
    np.testing.assert_array_equal(load(tmp_path / "m.corank").predict(table), model.predict(table))


def test_a_table_may_lack_names_that_are_not_all_there_is():
    table, winners, losers, _ = judged("mixed", 0)
    unnamed = table.drop(columns="name")
    model = fitted_on(table, winners, losers)
    strangers = unnamed.assign(name=[f"stranger {at}" for at in range(len(table))])
    np.testing.assert_array_equal(model.predict(unnamed), model.predict(strangers))
    alone = fitted_on(table[["name"]], winners, losers)
    with pytest.raises(ValueError, match="'name'"):
        alone.predict(unnamed)


def test_few_answers_that_share_no_item_have_a_sensible_scale():
    table = pd.DataFrame({"name": list("abcdefgh")})
    model = fitted_on(table, [0, 2, 4], [1, 3, 5])
    scores, std = model.predict(table, return_std=True)
    assert (scores[[0, 2, 4]] > scores[[6, 7]].max()).all()
    assert (scores[[1, 3, 5]] < scores[[6, 7]].min()).all()
    assert 0.1 < std.min() <= std.max() < 10
    assert 0.6 < model.predict_comparison(table.iloc[:1], table.iloc[1:2])[0] < 1


@pytest.mark.parametrize(
    ("candidate", "message"),
    [
        (Candidate(identity=1.5), "identity must lie between 0 and 1"),
        (Candidate(kernel="cosine", second_order=True, identity=0.5), "neither second_order"),
        (Candidate(identity=0.5), "TableEncoder"),
    ],
    ids=["too large", "second order", "no such column"],
)
def test_candidates_that_cannot_be_had_are_refused(candidate, message):
    table, winners, losers, _ = judged("columns", 0)
    with pytest.raises(ValueError, match=message):
        AutoRanker(candidates=[candidate]).fit_comparisons(
            table.drop(columns="name"), winners, losers
        )
