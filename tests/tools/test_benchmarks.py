"""The benchmarks measure what they say: bounds, targets, peers that solve the same problem, a run
from end to end.
"""

import json
import sys
import threading

import benchmarks.cases
import numpy as np
import pytest
from benchmarks import measure, peers, report
from benchmarks.__main__ import main
from benchmarks.growth import slope
from benchmarks.machine import file_name
from benchmarks.registry import (
    CASES,
    Contender,
    Rates,
    Target,
    Work,
    case,
    cholesky_work,
    fit_work,
    linear_work,
)
from benchmarks.worker import time_case

from corank import RankRLS
from corank.metrics import disagreement_error

NAMES = [
    "sparse-100k",
    "sparse-1m",
    "tune-100k",
    "tune-1m",
    "exact-4000",
    "predict-1m",
    "ragged",
    "linear-1m",
    "metrics",
    "basis",
    "links-1m",
    "import",
    "help",
    "fit-command",
    "rank-command",
    "average-predict",
]
QUERY_SIZE = 10


@pytest.fixture(scope="module")
def data():
    return benchmarks.cases.make_data(400, query_size=QUERY_SIZE)


@pytest.fixture
def registry(monkeypatch):
    """A list of cases that a test may add to."""
    monkeypatch.setattr("benchmarks.registry.CASES", {})
    monkeypatch.setattr("benchmarks.worker.CASES", sys.modules["benchmarks.registry"].CASES)
    return sys.modules["benchmarks.registry"].CASES


def test_the_cases_of_the_issue_are_there():
    assert set(NAMES) <= set(CASES)
    assert all(one.about for one in CASES.values())


@pytest.mark.parametrize("name", CASES)
def test_targets_and_references_name_contenders(name):
    contenders = CASES[name].build(True)
    names = [one.name for one in contenders]
    assert len(set(names)) == len(names)
    assert {one.beside for one in contenders} - {None} <= set(names)
    for target in CASES[name].targets:
        assert {target.of, target.than or target.of} <= set(names)


def test_a_name_is_taken_once(registry):
    def build(quick):
        return []

    case("new")(build)
    assert list(registry) == ["new"]
    with pytest.raises(ValueError, match="two cases 'new'"):
        case("new")(build)


def test_bound_is_flops_at_the_gemm_rate_plus_exps():
    rates = Rates(gemm=1e9, exp=2e-9)
    assert fit_work(1000, 50, 10).bound(rates) == pytest.approx(
        1000 * 50 * (50 + 20) / 1e9 + 1000 * 50 * 2e-9
    )
    assert linear_work(1000, 10).bound(rates) == pytest.approx(1000 * 100 / 1e9)
    assert cholesky_work(30, 10).bound(rates) == pytest.approx((900 * 20 + 9000) / 1e9 + 900 * 2e-9)
    assert measure.best_rates(rates, Rates(gemm=2e9, exp=3e-9)) == Rates(gemm=2e9, exp=2e-9)


CONTENDERS = {
    "a": {"best": 2.0, "share_of_bound": 0.6, "memory_mb": 300.0},
    "b": {"best": 5.0, "memory_mb": 280.0},
    "c": {"best": None},
}


@pytest.mark.parametrize(
    ("target", "value", "met"),
    [
        (Target("share", "a", 0.65), 0.6, False),
        (Target("time", "a", 2.5, than="b"), 2.5, True),
        (Target("cost", "a", 0.3, than="b"), 0.4, False),
        (Target("delay", "b", 2.0, than="a"), 3.0, False),
        (Target("memory", "a", 400), 300.0, True),
        (Target("growth", "a", 25, than="b"), 20.0, True),
        (Target("time", "a", 2.0, than="c"), None, None),
        (Target("share", "b", 0.5), None, None),
        (Target("cost", "a", 2.0, than="not there"), None, None),
    ],
    ids=str,
)
def test_targets_are_judged_by_what_was_measured(target, value, met):
    found = target.value(CONTENDERS)
    assert found == (None if value is None else pytest.approx(value))
    assert target.met(found) is met


def test_nystroem_peer_solves_the_same_problem(data):
    rows = peers.nystroem_rows(data.X, 30)
    model = RankRLS(basis=rows, alpha=1.0, gamma=data.gamma).fit(data.X, data.y, qid=data.qid)
    peer = peers.centred_nystroem_ridge(data.X, data.y, QUERY_SIZE, 30, data.gamma, 1.0)
    np.testing.assert_allclose(peer(data.X_test), model.predict(data.X_test), atol=1e-8)


def test_ridge_peer_solves_the_same_problem(data):
    model = RankRLS(kernel="linear", basis="features", alpha=1.0).fit(data.X, data.y, qid=data.qid)
    peer = peers.centred_ridge(data.X, data.y, QUERY_SIZE, 1.0)
    np.testing.assert_allclose(peer(data.X_test), model.predict(data.X_test), atol=1e-10)


def test_numpy_peer_counts_the_same_pairs(data):
    scores = data.y + data.X[:, 0]
    expected = disagreement_error(data.y, scores, data.qid)
    assert peers.pairwise_disagreement(data.y, scores, QUERY_SIZE) == pytest.approx(expected)


@pytest.mark.parametrize("library", ["lightgbm", "xgboost", "rlscore"])
def test_other_peers_rank_better_than_chance(data, library):
    pytest.importorskip(library)
    levels = peers.relevance(data.y, QUERY_SIZE)
    predict = {
        "lightgbm": lambda: peers.lightgbm_lambdarank(data.X, levels, QUERY_SIZE),
        "xgboost": lambda: peers.xgboost_pairwise(data.X, levels, data.qid),
        "rlscore": lambda: peers.rlscore_rankrls(
            data.X, data.y, data.qid, np.arange(30), data.gamma, 1.0
        ),
    }[library]()
    assert disagreement_error(data.y, predict(data.X), data.qid) < 0.4


def test_relevance_has_five_levels_of_equal_shares(data):
    assert set(np.bincount(peers.relevance(data.y, QUERY_SIZE))) == {len(data.y) // 5}


def test_peak_memory_counts_what_is_freed_again():
    if sys.platform != "linux":
        pytest.skip("reads /proc")
    found = measure.peak_memory_mb(lambda: np.ones(10_000_000).sum())
    assert found == pytest.approx(80, abs=10)


def test_profile_sees_other_threads():
    matrix = np.ones((300, 300))

    def spin():
        for _ in range(50):
            matrix @ matrix  # no Python of NumPy's between this line and the work

    def call():
        thread = threading.Thread(target=spin)
        thread.start()
        thread.join()

    found = measure.profile(call)
    assert any("spin" in row for row in found["functions"])
    assert any("matrix @ matrix" in row for row in found["lines"])


@pytest.mark.slow
def test_a_peer_that_fails_or_is_missing_leaves_the_others(registry):
    def fail():
        raise MemoryError("too large")

    @case("mixed")
    def mixed(quick):
        """One that works and two that do not."""
        return [
            Contender(
                "good", lambda: sum(range(1000)), Work(1e6), error=lambda result: result / 1e6
            ),
            Contender("bad", fail),
            Contender("absent", fail, needs="not_a_module"),
        ]

    found = time_case("mixed", quick=True, repeats=2)["contenders"]
    assert len(found["good"]["seconds"]) == 2
    assert found["good"]["best"] == min(found["good"]["seconds"])
    assert found["good"]["error"] == 0.4995
    assert found["good"]["share_of_bound"] == pytest.approx(
        found["good"]["bound"] / found["good"]["best"]
    )
    assert found["bad"]["missing"] == "MemoryError: too large"
    assert found["absent"]["missing"] == "not_a_module is not installed"


@pytest.mark.slow
def test_quick_run_writes_what_the_table_reads(tmp_path, capsys):
    out = tmp_path / "results.json"
    out.write_text(json.dumps({"version": 0}))  # of another format: replaced
    assert main(["linear-1m", "--quick", "--repeats", "1", "--out", str(out)]) == 0
    results = json.loads(out.read_text())
    assert {"cpu", "cores", "blas", "versions"} <= set(results["machine"])
    found = results["cases"]["linear-1m"]
    assert found["rates"]["gemm"] > 0
    assert {"commit", "dirty"} == set(found["sources"])
    assert [target["met"] for target in found["targets"]] == [None]  # a quick run judges nothing
    corank, ridge = found["contenders"].values()
    assert corank["profile"]["lines"]
    assert 0 < corank["share_of_bound"] < 1
    assert corank["error"] == pytest.approx(ridge["error"], abs=1e-3)
    assert all(record["best"] > 0 and "memory_mb" in record for record in (corank, ridge))
    assert "linear-1m (quick)" in capsys.readouterr().out
    assert main(["--table", str(out)]) == 0
    assert capsys.readouterr().out == report.markdown(results) + "\n"
    assert "| corank |" in report.markdown(results)


def test_unknown_cases_are_refused(capsys):
    with pytest.raises(SystemExit):
        main(["no-such-case"])
    assert "no case no-such-case; there are sparse-100k" in capsys.readouterr().err


def test_results_are_named_by_machine_and_commit():
    machine, sources = (
        {"cpu": "AMD EPYC(tm) 7", "cores": 2},
        {
            "commit": "0123456789abcdef",
            "dirty": True,
        },
    )
    assert file_name(machine, sources) == "amd-epyc-tm-7-2-cores-012345678-dirty.json"


def test_exponent_of_growth_is_that_of_the_larger_sizes():
    sizes = [10, 100, 1_000, 10_000]
    assert slope(sizes, [5.0, 5.0, 2.0 * 1_000**2, 2.0 * 10_000**2]) == pytest.approx(2.0)
