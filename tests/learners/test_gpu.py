"""Tensors on a GPU give what NumPy gives. Skipped where there is no CUDA device."""

import numpy as np
import pytest

from corank import (
    KPCR,
    RLS,
    CoRankingPursuit,
    CoRankRLS,
    CoRLS,
    KPCRank,
    MatchingPursuit,
    RankingPursuit,
    RankRLS,
    TransductiveRankRLS,
    View,
    load,
)

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")

rng = np.random.default_rng(0)
X = rng.normal(size=(240, 8))
QID = np.repeat(np.arange(30), 8)
Y = np.sin(X[:, 0]) + X[:, 4] + 0.1 * rng.normal(size=240) + QID
HALF = np.where(QID < 20, Y, np.nan)
NEW = rng.normal(size=(50, 8))
MORE = rng.normal(size=(3_000, 8))
RAGGED = np.sort(rng.integers(0, 200, 3_000))
VIEWS = [View(slice(0, 4)), View(slice(4, 8))]
WINNERS, LOSERS = np.arange(0, 120), np.arange(120, 240)

LEARNERS = {
    "exact, tuned": RankRLS(),
    "exact, width tuned": RLS(gamma="tune"),
    "subset, tuned": RankRLS(basis=40),
    "unit weights": RankRLS(basis=40, weighting="unit"),
    "blend": RankRLS(basis=40, beta=0.5),
    "features": RankRLS(kernel="linear", basis="features"),
    "components": KPCRank(10),
    "components of regression, tuned": KPCR(),
    "pursuit": RankingPursuit(8),
    "matching, before": MatchingPursuit(8, refit="pre"),
    "transduction": TransductiveRankRLS(1.0),
}
AGREEING = {
    "all rows": CoRankRLS(VIEWS, 0.5, 0.1, basis="all"),
    "subset, fixed": CoRankRLS(VIEWS, 0.5, 0.1, basis=40),
    "subset, tuned": CoRankRLS(VIEWS, basis=40),
    "regression, tuned": CoRLS(VIEWS, basis=40),
    "coordinate": CoRLS(VIEWS, 0.5, 0.1, basis=40, solver="coordinate"),
    "pursuit": CoRankingPursuit(VIEWS, 5, 0.1),
}


def on_gpu(*arrays):
    return [torch.as_tensor(array, device="cuda") for array in arrays]


def assert_same(found, expected):
    """To 1e-9 of the spread of what NumPy found."""
    assert found.is_cuda
    scale = float(np.ptp(expected)) or 1.0
    np.testing.assert_allclose(found.cpu().numpy() / scale, expected / scale, atol=1e-9)


@pytest.mark.parametrize("name", LEARNERS)
def test_learners_of_one_view(name):
    scores = HALF if name == "transduction" else Y
    ours = LEARNERS[name].fit(X, scores, qid=QID).predict(NEW)
    rows, y, qid, new = on_gpu(X, scores, QID, NEW)
    assert_same(LEARNERS[name].fit(rows, y, qid=qid).predict(new), ours)


@pytest.mark.parametrize("name", AGREEING)
@pytest.mark.parametrize("queries", [np.arange(3_000) // 10, RAGGED], ids=["equal", "ragged"])
def test_learners_of_several_views(name, queries):
    more = MORE[:200] if name == "all rows" else MORE
    own = queries[: len(more)]
    ours = AGREEING[name].fit(X, Y, qid=QID, unscored=more, unscored_qid=own).predict(NEW)
    rows, y, qid, new, unscored, unscored_qid = on_gpu(X, Y, QID, NEW, more, own)
    model = AGREEING[name].fit(rows, y, qid=qid, unscored=unscored, unscored_qid=unscored_qid)
    assert_same(model.predict(new), ours)


def test_chunks_made_on_the_device():
    model = CoRankRLS(VIEWS, 0.5, 0.1, basis=40)
    ours = model.fit(X, Y, qid=QID, unscored=MORE, unscored_qid=RAGGED).predict(NEW)
    rows, y, qid, new, more, queries = on_gpu(X, Y, QID, NEW, MORE, RAGGED)
    chunks = [
        (more[begin : begin + 700], queries[begin : begin + 700]) for begin in range(0, 3_000, 700)
    ]
    assert_same(model.fit(rows, y, qid=qid, unscored=chunks).predict(new), ours)


def test_comparisons():
    ours = RankRLS(1.0).fit_comparisons(X, WINNERS, LOSERS).predict(NEW)
    rows, new = on_gpu(X, NEW)
    assert_same(RankRLS(1.0).fit_comparisons(rows, WINNERS, LOSERS).predict(new), ours)


def test_a_model_of_the_gpu_is_used_without_one(tmp_path):
    rows, y, qid, new = on_gpu(X, Y, QID, NEW)
    model = RankRLS(basis=40).fit(rows, y, qid=qid)
    model.save(tmp_path / "model.corank")
    found = load(tmp_path / "model.corank").predict(NEW)
    assert isinstance(found, np.ndarray)
    assert_same(model.predict(new), found)


def test_single_precision_rows_are_summed_in_double():
    single = X.astype(np.float32)
    ours = RankRLS(1.0, basis=40, gamma=0.1).fit(single, Y, qid=QID).predict(NEW.astype(np.float32))
    rows, y, qid, new = on_gpu(single, Y, QID, NEW.astype(np.float32))
    found = RankRLS(1.0, basis=40, gamma=0.1).fit(rows, y, qid=qid).predict(new)
    np.testing.assert_allclose(found.cpu().numpy(), ours, atol=2e-6 * np.ptp(ours))
