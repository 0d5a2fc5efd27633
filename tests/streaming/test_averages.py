"""The default on scans: weighed by a sample of the rows, fitted to all of them, whatever pieces they
come in.
"""

import numpy as np
import pytest
from scan_files import NAMES, make_rows, scan, table, write_parts
from scipy import sparse
from sklearn.metrics import r2_score

from corank import AutoRanker, AutoRegressor, TableEncoder, View, load
from corank.core.sampling import label_draws
from corank.learners.average import fitting
from corank.learners.average.candidates import Candidate
from corank.learners.average.encoding import AS_GIVEN, BOTH_RANKS, QUERY_RANKS, RANKS
from corank.metrics import disagreement_error
from corank.streaming import averages, models
from corank.tables import TableError

pytestmark = [
    pytest.mark.usefixtures("one_blas_thread"),
    pytest.mark.filterwarnings("ignore:X does not have valid feature names"),
    pytest.mark.filterwarnings("ignore:rows are predicted in passes"),
]
X, Y, QID = make_rows(n=600, scored=0.8)
NEW = make_rows(n=40, seed=2)[0]
CANDIDATES = [
    Candidate(width=2.0),
    Candidate(RANKS, width=8.0),
    Candidate(kernel="laplacian"),
    Candidate(QUERY_RANKS, width=4.0),
]
LEARNERS = [AutoRegressor(candidates=CANDIDATES), AutoRanker(candidates=CANDIDATES)]


@pytest.fixture
def few_sampled(monkeypatch):
    """Most rows are not in the sample, and most of the sample spans the functions."""
    monkeypatch.setattr(averages, "SAMPLE_ROWS", 150)
    monkeypatch.setattr(fitting, "affordable", lambda n, n_parts=1: (3, 100))


def rows_of(folder, chunk_rows=50, *, query="q", ends=(37, 410), client=None):
    if not folder.exists():
        write_parts(table(X, Y, QID), folder, ends, row_group_size=45)
    of = {"features": NAMES, "score": "y", "query": query}
    return scan(folder, **of, chunk_rows=chunk_rows, client=client)


def close(found, expected, size=1e-6):
    np.testing.assert_allclose(found, expected, rtol=0, atol=size * np.std(expected))


def same_bits(model, other):
    for found, expected in zip(model.coefficients, other.coefficients, strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("learner", LEARNERS, ids=["regressor", "ranker"])
def test_few_rows_give_the_model_of_memory(learner, tmp_path):
    expected = learner.fit(X, Y).predict(NEW)
    model = learner.fit(rows_of(tmp_path / "rows", query=None))
    close(model.predict(NEW), expected)
    n_scored = int((~np.isnan(Y)).sum())
    counts = {name: model.counts()[name] for name in ("rows", "scored")}
    assert counts == {"rows": 600, "scored": n_scored}
    assert model.n_unscored == 600 - n_scored
    scored, queries = X[~np.isnan(Y)], QID[~np.isnan(Y)]
    write_parts(table(scored, Y[~np.isnan(Y)], queries), tmp_path / "scored", [99])
    rows = scan(tmp_path / "scored", score="y", query="q")
    expected = learner.fit(scored, Y[~np.isnan(Y)], qid=queries).predict(NEW)
    close(learner.fit(rows).predict(NEW), expected)


@pytest.mark.parametrize(
    "kind", ["regressor", "no level", "queries", "one query", "within", "both"]
)
def test_coefficients_are_those_of_all_rows(kind, tmp_path, few_sampled):
    ranks = kind not in ("regressor", "no level")
    candidates = {"within": [Candidate(QUERY_RANKS)], "both": [Candidate(BOTH_RANKS)]}.get(
        kind, CANDIDATES[:1]
    )
    learner = AutoRegressor(candidates=candidates, fit_intercept=kind != "no level")
    if ranks:
        learner = AutoRanker(candidates=candidates)
    query = "q" if kind in ("queries", "within", "both") else None
    learner.fit(rows_of(tmp_path / "rows", query=query))
    model = learner._model
    [encoding], [fitted] = model.encodings, model.candidates
    points = model.points[encoding.name]
    assert len(points) == 100
    scored = ~np.isnan(Y)
    gamma = fitted.similarities[0].gamma

    def kernel(rows, queries):
        encoded = encoding.encode(rows, queries)
        return np.exp(-gamma * np.sum((encoded[:, None] - points[None]) ** 2, axis=2))

    features, scores = kernel(X[scored], QID[scored]), Y[scored] - model.base
    groups = np.unique(QID[scored], return_inverse=True)[1] if query else np.zeros(len(scores), int)
    centring = np.eye(len(scores))
    if kind != "no level":
        members = np.eye(groups.max() + 1)[groups]
        centring -= members @ np.diag(1 / members.sum(axis=0)) @ members.T
    between = np.exp(-gamma * np.sum((points[:, None] - points[None]) ** 2, axis=2))
    system = features.T @ centring @ features + fitted.alpha * between
    expected = np.linalg.solve(system, features.T @ centring @ scores)
    new = kernel(NEW, np.arange(40) // 8)
    values = new @ expected
    found = new @ fitted.coefficients + fitted.level
    if query:
        values, found = values - values.mean(), found - found.mean()
    elif kind != "no level":
        values += scores.mean() - np.mean(features @ expected)
    close(found, values, 1e-5)


@pytest.mark.parametrize("learner", LEARNERS, ids=["regressor", "ranker"])
def test_pieces_do_not_matter(learner, tmp_path, few_sampled):
    expected = learner.fit(rows_of(tmp_path / "rows"))
    predictions, points = expected.predict(NEW), expected._model.points
    assert 1.9 < expected.n_readings_ <= 2
    for number, (chunk_rows, ends) in enumerate([(7, []), (1_000, [1, 300])]):
        model = learner.fit(rows_of(tmp_path / f"{number}", chunk_rows, ends=ends))
        close(model.predict(NEW), predictions)
        for name, rows in points.items():
            np.testing.assert_array_equal(model._model.points[name], rows)
    queries = {"qid": QID} if isinstance(model, AutoRanker) else {}
    assert (QUERY_RANKS in model._model.points) == bool(queries)
    for chunk_rows in (3, 50, 1_000):
        scanned = rows_of(tmp_path / "rows", chunk_rows)
        found = model.predict(X, **queries)
        close(model.predict(scanned), found)
        expected = r2_score(Y[~np.isnan(Y)], found[~np.isnan(Y)])
        if queries:
            expected = 1 - disagreement_error(Y, found, qid=QID)
        assert model.score(scanned) == pytest.approx(expected)


def test_points_are_called_by_their_rows_in_the_scan(tmp_path, few_sampled):
    model = LEARNERS[0].fit(rows_of(tmp_path / "rows"))
    names = [item.name for item in model.explain_pair(X[0], X[1]).by_item]
    rows = np.sort([int(name.removeprefix("row ")) for name in names])
    assert rows.max() > 150
    assert not np.isnan(Y[rows]).any()
    encoding = model._model.encodings[0]
    found = encoding.encode(X[rows], None)
    np.testing.assert_allclose(model._model.points[encoding.name], found, atol=1e-12)


def test_a_sample_holds_whole_queries_or_rows_of_few_large_ones(tmp_path, monkeypatch):
    monkeypatch.setattr(averages, "SAMPLE_ROWS", 150)
    scanned = rows_of(tmp_path / "rows", 20)
    sampled = averages.SampledScan.of(scanned, averages.Passes(), 0)
    scored, codes = ~np.isnan(Y), sampled.survey.held.joined()[2]
    assert 100 < len(codes) <= 150
    for query, size in zip(*np.unique(codes, return_counts=True), strict=True):
        assert size == np.sum(scored & (query == QID))
    write_parts(table(X, Y, np.repeat([5, 3], 300)), tmp_path / "two", [200])
    of_two = averages.SampledScan.of(
        scan(tmp_path / "two", features=NAMES, score="y", query="q", chunk_rows=33),
        averages.Passes(),
        0,
    )
    assert np.all(np.bincount(of_two.table.queries)[:2] > 50)
    assert of_two.counts == (600, int((~np.isnan(Y)).sum()), int(np.isnan(Y).sum()), 2)


def test_draws_of_labels_are_spread_evenly():
    labels = np.arange(10_000)
    draws = label_draws(labels, 0)
    np.testing.assert_allclose(np.histogram(draws, 10, (0, 1))[0], 1_000, atol=120)
    assert abs(np.corrcoef(draws[1:], draws[:-1])[0, 1]) < 0.04
    np.testing.assert_array_equal(label_draws(labels[::-1], 0), draws[::-1])
    assert not np.array_equal(label_draws(labels, 1), draws)


class Breaks:
    """A map that breaks the fit off when it has been called `after` times."""

    def __init__(self, after=None):
        self.after, self.calls = after, 0

    def __call__(self, features):
        self.calls += 1
        if self.calls == self.after:
            raise KeyboardInterrupt
        return features


@pytest.mark.parametrize("learner", LEARNERS, ids=["regressor", "ranker"])
def test_a_fit_that_breaks_off_is_resumed_with_the_same_bits(learner, tmp_path, few_sampled):
    uninterrupted = Breaks()
    expected = learner.fit(rows_of(tmp_path / "rows").map(uninterrupted))
    for after in range(6, uninterrupted.calls, 9):
        kept, broken = tmp_path / f"kept {after}", rows_of(tmp_path / "rows").map(Breaks(after))
        with pytest.raises(KeyboardInterrupt):
            type(learner)(candidates=CANDIDATES).fit(broken, checkpoint=kept)
        resumed = Breaks()
        model = type(learner)(candidates=CANDIDATES).fit(
            rows_of(tmp_path / "rows").map(resumed), checkpoint=kept
        )
        same_bits(model, expected)
        assert resumed.calls < uninterrupted.calls
    with pytest.raises(ValueError, match="candidates"):
        type(learner)().fit(rows_of(tmp_path / "rows").map(Breaks()), checkpoint=kept)


@pytest.mark.parametrize("learner", LEARNERS, ids=["regressor", "ranker"])
def test_workers_and_collections(learner, tmp_path, few_sampled):
    distributed = pytest.importorskip("distributed")
    array = pytest.importorskip("dask.array")
    fitted = type(learner)(candidates=CANDIDATES).fit(rows_of(tmp_path / "rows"))
    expected = fitted.predict(NEW)
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": ":0"}
    with (
        distributed.LocalCluster(processes=False, **options) as cluster,
        distributed.Client(cluster) as client,
    ):
        same_bits(learner.fit(rows_of(tmp_path / "rows", client=client)), fitted)
        cut = [array.from_array(values, chunks=110) for values in (X, Y, QID)]
        cut[0] = cut[0].rechunk((110, 6))
        collected = learner.fit(cut[0], cut[1], qid=cut[2])
        close(collected.predict(NEW), expected)
        close(np.asarray(collected.predict(cut[0])), collected.predict(X))


def test_views_text_and_files_of_models(tmp_path, few_sampled):
    import pyarrow as pa

    words = pa.array(np.where(X[:, 1] > 0, "a fine sunny day", "rain and more rain").tolist())
    rows = table(X, Y, QID).append_column("words", words)
    write_parts(rows, tmp_path / "rows", [300])
    encoder = TableEncoder(text=["words"]).fit(rows.select([*NAMES, "words"]))
    scanned = scan(tmp_path / "rows", score="y", encoder=encoder)
    model = AutoRegressor(encoder=encoder).fit(scanned)
    model.save(tmp_path / "m.corank")
    loaded = load(tmp_path / "m.corank")
    np.testing.assert_array_equal(loaded.predict(rows), model.predict(rows))
    with pytest.raises(ValueError, match="too many scored rows"):
        model.update(rows, Y)
    views = [View(slice(0, 3)), View(slice(3, 6))]
    agreeing = [Candidate(views="agreement", strength=1.0), Candidate(views="sum")]
    model = AutoRegressor(views=views, candidates=agreeing).fit(rows_of(tmp_path / "numbers"))
    assert model.score(X[~np.isnan(Y)], Y[~np.isnan(Y)]) > 0.9
    assert model.unscored_effect_ is None


def test_wide_sparse_rows_are_csr(tmp_path, few_sampled, monkeypatch):
    monkeypatch.setattr(averages, "WIDE_COLUMNS", 5)
    rng = np.random.default_rng(5)
    sparse_rows = np.where(rng.random(X.shape) < 0.06, X + 3, 0.0)
    write_parts(table(sparse_rows, Y, QID), tmp_path / "rows", [300])
    candidates = [Candidate(AS_GIVEN, "cosine"), Candidate(width=2.0)]
    rows = scan(tmp_path / "rows", features=NAMES, score="y", chunk_rows=50)
    model = AutoRegressor(candidates=candidates).fit(rows)
    assert all(sparse.issparse(points) for points in model._model.points.values())
    close(model.predict(rows), model.predict(sparse.csr_array(sparse_rows)))
    monkeypatch.setattr(averages, "SAMPLE_ROWS", 1_000)
    expected = AutoRegressor(candidates=candidates).fit(sparse.csr_array(sparse_rows), Y)
    found = AutoRegressor(candidates=candidates).fit(rows)
    close(found.predict(sparse_rows), expected.predict(sparse_rows))


def test_few_queries_in_passes_are_compared_as_in_memory(tmp_path):
    scores = np.nan_to_num(Y, nan=0.5)
    write_parts(table(X, scores, QID), tmp_path / "rows", [99])
    candidates = [*CANDIDATES, Candidate(BOTH_RANKS, "laplacian")]
    expected = AutoRanker(candidates=candidates).fit(X, scores, qid=QID)
    rows = scan(tmp_path / "rows", features=NAMES, score="y", query="q", chunk_rows=40)
    found = AutoRanker(candidates=candidates).fit(rows)
    close(found.predict(X, qid=QID), expected.predict(X, qid=QID))
    close(found.predict(rows), expected.predict(X, qid=QID))


def test_columns_are_not_compared_within_queries_that_come_back(tmp_path, few_sampled):
    model = AutoRanker(candidates=CANDIDATES).fit(rows_of(tmp_path / "rows"))
    row = int(np.flatnonzero(QID[1:] == QID[:-1])[0])
    order = np.append(np.delete(np.arange(600), row), row)
    write_parts(table(X[order], Y[order], QID[order]), tmp_path / "apart", [300])
    for chunk_rows in (7, 1_000):
        apart = scan(tmp_path / "apart", chunk_rows, features=NAMES, query="q")
        with pytest.raises(TableError, match=f"query {QID[row]} comes back .* sort the files"):
            model.predict(apart)
        without = scan(tmp_path / "apart", chunk_rows, features=NAMES)
        close(model.predict(without), model.predict(X[order]))


def test_queries_too_long_to_compare_columns_within_them(tmp_path, few_sampled, monkeypatch):
    ranker = AutoRanker(candidates=CANDIDATES)
    model = ranker.fit(rows_of(tmp_path / "rows"))
    monkeypatch.setattr(models, "max_held_rows", lambda n_features: 2)
    with pytest.raises(ValueError, match="a query has more than 2 rows"):
        model.predict(rows_of(tmp_path / "rows", 3))
    monkeypatch.setattr(averages.SampledScan, "has_whole_queries", False)
    assert QUERY_RANKS not in ranker.fit(rows_of(tmp_path / "rows"))._model.points


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"y": Y}, "y comes from the scan"),
        ({"links": [[0, 1]]}, "links does not go with a scan"),
        ({"unscored": X}, "unscored does not go with a scan"),
        ({"sample_weight": np.ones(600)}, "sample_weight does not go with a scan"),
    ],
)
def test_what_does_not_go_with_a_scan(given, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        AutoRegressor().fit(rows_of(tmp_path / "rows"), **given)


def test_other_refusals(tmp_path):
    rows = rows_of(tmp_path / "rows")
    with pytest.raises(ValueError, match="checkpoint goes with a scan"):
        AutoRegressor().fit(X, Y, checkpoint=tmp_path / "kept")
    with pytest.raises(ValueError, match="encoder is for tables"):
        AutoRegressor(encoder=TableEncoder().fit(table(X))).fit(rows)
    write_parts(table(X, np.full(600, np.nan), QID), tmp_path / "unscored")
    with pytest.raises(ValueError, match="no scored row"):
        AutoRanker().fit(scan(tmp_path / "unscored", features=NAMES, score="y"))
    within = [Candidate(QUERY_RANKS), Candidate(BOTH_RANKS)]
    for given in ((rows_of(tmp_path / "rows", query=None),), (X, Y)):
        with pytest.raises(ValueError, match="all of them compare columns within queries"):
            AutoRanker(candidates=within).fit(*given)
    model = AutoRanker(candidates=CANDIDATES).fit(rows)
    with pytest.raises(ValueError, match="return_std"):
        model.predict(rows, return_std=True)
