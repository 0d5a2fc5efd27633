"""Sites that keep their data: the same solution as all data in one place, and nothing else crosses
the wire.
"""

import errno
import shutil
import stat
from dataclasses import replace
from itertools import combinations, pairwise

import numpy as np
import pandas as pd
import pytest
from brute_force import REGRESSION, Loss, kernel, loss_rows, symmetric_root
from scipy.linalg import lstsq
from scipy.sparse import csr_array

from corank import CoRankRLS, CoRLS, View, load
from corank_federated import (
    Coordinator,
    Fault,
    InProcess,
    Limits,
    Message,
    Plan,
    Refused,
    RunStopped,
    SharedItems,
    Site,
    StateError,
)
from corank_federated.channel import answered
from corank_federated.messages import KINDS, Terms, decoded
from corank_federated.predicting import ModelServer
from corank_federated.state import read_state, write_state

pytestmark = pytest.mark.usefixtures("one_blas_thread")

MANY = Limits(rounds=10_000)
WAYS = [(schedule, fast) for schedule in ("sequential", "parallel") for fast in (False, True)]
ALPHAS = (0.3, 0.8, 2.0)
RBF = kernel("rbf", gamma=0.3)


def site_rows(seed, n=14, d=3):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, np.sin(X[:, 0]) + X[:, 1] + 0.1 * rng.normal(size=n) + seed


@pytest.fixture
def items():
    return np.random.default_rng(9).normal(size=(25, 3))


def make_sites(learners, shared, *, qid=None, limits=MANY, state=None):
    return [
        Site(
            name,
            learner,
            *site_rows(v + 1),
            shared,
            qid=qid,
            limits=limits,
            state=state and state / f"{name}.state",
        )
        for v, (name, learner) in enumerate(zip("abc", learners, strict=False))
    ]


def run(sites, agreement=0.4, **how):
    channel = how.pop("channel", None) or InProcess(sites)
    state = how.pop("state", None)
    plan = Plan(
        "test", tuple(site.name for site in sites), agreement, **{"max_rounds": 5000, **how}
    )
    return Coordinator(plan, channel, state=state).run()


def joint_minimum(
    rows, points, alphas, agreement, items, loss, shared_loss, levels, qid=None, shared_qid=None
):
    """The stated objective as one least-squares problem; predictions on new points, one function a
    site.
    """
    ends = np.cumsum([0, *(len(own) for own in points)])
    matrix, right = [], []

    def add(blocks, target):
        wide = np.zeros((len(target), ends[-1]))
        for v, block in blocks.items():
            wide[:, ends[v] : ends[v + 1]] += block
        matrix.append(wide)
        right.append(target)

    for v, (X, y) in enumerate(rows):
        T, t = loss_rows(y - levels[v], np.zeros(len(y)) if qid is None else qid, loss)
        add({v: T @ RBF(X, points[v])}, t)
        norm = np.sqrt(alphas[v]) * symmetric_root(RBF(points[v], points[v]))
        add({v: norm}, np.zeros(len(norm)))
    T, _ = loss_rows(
        np.zeros(len(items)),
        np.zeros(len(items)) if shared_qid is None else shared_qid,
        shared_loss,
    )
    for u, v in combinations(range(len(rows)), 2):
        root = np.sqrt(2 * agreement)
        gap = root * T @ np.full(len(items), levels[u] - levels[v])
        add({v: root * T @ RBF(items, points[v]), u: -root * T @ RBF(items, points[u])}, gap)
    solution = lstsq(np.concatenate(matrix), np.concatenate(right), lapack_driver="gelsy")[0]
    parts = [solution[b:e] for b, e in pairwise(ends)]
    return [
        lambda new, c=c, p=p, level=level: RBF(new, p) @ c + level
        for c, p, level in zip(parts, points, levels, strict=True)
    ]


def close(got, wanted, tol=1e-8):
    assert np.linalg.norm(got - wanted) <= tol * np.linalg.norm(wanted)


# ------------------------------------------------------------------ the same solution


@pytest.mark.parametrize("report", [True, False])
@pytest.mark.parametrize(("schedule", "accelerate"), WAYS)
def test_regression_converges_to_the_minimum_of_the_stated_objective(
    items, schedule, accelerate, report
):
    learners = [CoRLS(alpha=alpha, gamma=0.3, basis="all") for alpha in ALPHAS]
    sites = make_sites(learners, SharedItems(items))
    result = run(sites, schedule=schedule, accelerate=accelerate, report=report)
    assert result.converged
    rows = [site_rows(v + 1) for v in range(3)]
    points = [np.concatenate([X, items]) for X, _ in rows]
    levels = [y.mean() for _, y in rows]
    functions = joint_minimum(rows, points, ALPHAS, 0.4, items, REGRESSION, REGRESSION, levels)
    new = np.random.default_rng(3).normal(size=(10, 3))
    for v, (site, function) in enumerate(zip(sites, functions, strict=True)):
        close(result.predictions[v], function(items))
        close(site.model.predict(new), function(new))


@pytest.mark.parametrize(("weighting", "beta"), [("size", 0.0), ("unit", 0.3), ("query", 0.0)])
def test_ranking_converges_to_the_minimum_of_the_stated_objective(items, weighting, beta):
    qid, shared_qid = np.arange(14) % 3, np.arange(25) // 5
    learners = [
        CoRankRLS(alpha=alpha, gamma=0.3, basis="scored", weighting=weighting, beta=beta)
        for alpha in ALPHAS
    ]
    sites = make_sites(learners, SharedItems(items, queries=shared_qid), qid=qid)
    result = run(sites)
    rows = [site_rows(v + 1) for v in range(3)]
    loss, shared_loss = Loss(weighting, beta), Loss(weighting, 0.0)
    points = [X for X, _ in rows]
    functions = joint_minimum(
        rows, points, ALPHAS, 0.4, items, loss, shared_loss, [0] * 3, qid, shared_qid
    )
    # a query's level is not exchanged
    centre = np.eye(25) - (shared_qid[:, None] == shared_qid[None, :]) / 5
    for v, (site, function) in enumerate(zip(sites, functions, strict=True)):
        close(result.predictions[v], centre @ function(items))
        close(site.model.predict(items), function(items))


def test_sites_equal_the_views_of_corls_in_one_place(items):
    rows = [site_rows(v + 1) for v in range(3)]
    sites = make_sites(
        [CoRLS(alpha=a, gamma=0.3, basis="all", fit_intercept=False) for a in ALPHAS],
        SharedItems(items),
    )
    run(sites)
    X, Y = np.concatenate([own for own, _ in rows]), np.full((42, 3), np.nan)
    for v, (_, y) in enumerate(rows):
        Y[14 * v : 14 * (v + 1), v] = y
    views = [View(gamma=0.3, penalty=alpha) for alpha in ALPHAS]
    pooled = CoRLS(views, alpha=1.0, agreement=0.4, basis="all", fit_intercept=False).fit(
        X, Y, unscored=items
    )
    new = np.random.default_rng(3).normal(size=(10, 3))
    close(np.stack([site.model.predict(new) for site in sites], axis=1), pooled.predict_views(new))


def test_a_site_tunes_its_own_alpha_and_may_have_columns_of_its_own(items):
    X, y = site_rows(1, n=30)
    other = np.random.default_rng(5).normal(size=(25, 2))
    ids = [f"item {row}" for row in range(25)]
    wide = pd.DataFrame(items, columns=["x", "y", "z"])
    first = Site(
        "a", CoRLS(), pd.DataFrame(X, columns=["x", "y", "z"]), y, SharedItems(wide, ids=ids)
    )
    second = Site(
        "b", CoRLS(kernel="linear", basis="features"), X[:, :2], y, SharedItems(other, ids=ids)
    )
    assert first.model.alpha_ == pytest.approx(
        CoRLS(views=1, agreement=0.0).fit(X, y, unscored=items).alpha_
    )
    assert run([first, second]).converged


def test_shared_features_that_are_too_many_to_keep_are_made_anew(items, monkeypatch):
    def predictions():
        return run(
            make_sites([CoRLS(alpha=a, gamma=0.3, basis="all") for a in ALPHAS], SharedItems(items))
        ).predictions

    kept = predictions()
    monkeypatch.setattr("corank_federated.site.HELD", 0)
    monkeypatch.setattr("corank_federated.site.BLOCK_ROWS", 7)
    close(predictions(), kept)


@pytest.mark.parametrize("kind", ["torch", "csr"])
def test_features_of_other_libraries_give_the_same(items, kind):
    made = pytest.importorskip("torch").from_numpy if kind == "torch" else csr_array
    plain, other = [], []
    for v, alpha in enumerate(ALPHAS):
        X, y = site_rows(v + 1)
        learner = CoRLS(alpha=alpha, gamma=0.3, basis="all")
        plain.append(Site("abc"[v], learner, X, y, SharedItems(items)))
        other.append(
            Site(
                "abc"[v],
                learner,
                made(X),
                made(y) if kind == "torch" else y,
                SharedItems(made(items)),
            )
        )
    assert plain[0].shared.fingerprint.digest == other[0].shared.fingerprint.digest
    close(run(other).predictions, run(plain).predictions)
    close(np.asarray(other[1].model.predict(made(items))), plain[1].model.predict(items))


@pytest.mark.slow
def test_ten_thousand_items_end_within_1e8_of_the_joint_solution():
    case = pytest.importorskip("benchmarks.federated").Case(3, 10_000)
    for times in (1.0, 20.0):
        joint = case.joint(times * case.agreement)
        channel = InProcess([case.site(v) for v in range(3)])
        result = Coordinator(
            Plan("figure", case.names, times * case.agreement, max_rounds=2000), channel
        ).run()
        close(result.predictions, joint)
        assert max(own.sent + own.received for own in result.rounds) <= 2 * 3 * 10_000 * 8 * 1.05


def test_acceleration_halves_the_rounds_where_plain_needs_many(items):
    def rounds(**how):
        learners = [CoRLS(alpha=0.3, gamma=0.3, basis="all") for _ in range(3)]
        return run(make_sites(learners, SharedItems(items)), agreement=2.0, **how).n_rounds

    plain = rounds(accelerate=False)
    assert plain > 50
    assert rounds() <= plain / 2


def test_the_estimated_error_is_not_the_step(items):
    sites = make_sites(
        [CoRLS(alpha=0.3, gamma=0.3, basis="all") for _ in range(3)], SharedItems(items)
    )
    exact = run(sites, agreement=20.0).predictions
    sites = make_sites(
        [CoRLS(alpha=0.3, gamma=0.3, basis="all") for _ in range(3)], SharedItems(items)
    )
    early = run(sites, agreement=20.0, accelerate=False, report=False, tol=1e-3)
    error = np.linalg.norm(early.predictions - exact) / np.linalg.norm(exact - exact.mean())
    assert error < 2e-3  # steps are far smaller than that: contraction is 0.99 and more


# ------------------------------------------------------------------ what crosses the wire


class Recorder(InProcess):
    def __init__(self, sites):
        super().__init__(sites)
        self.seen = []

    def record(self, way, site, content):
        super().record(way, site, content)
        self.seen.append((way, site, decoded(content), len(content)))


@pytest.mark.parametrize("report", [True, False])
def test_every_message_is_predictions_and_three_numbers_or_predictions_alone(items, report):
    sites = make_sites([CoRLS(alpha=1.0, basis="all") for _ in range(3)], SharedItems(items))
    channel = Recorder(sites)
    result = run(sites, report=report, channel=channel)
    own = {
        v: np.concatenate([X.ravel(), y])
        for v, (X, y) in enumerate(site_rows(v + 1) for v in range(3))
    }
    allowed = {
        "hello": "from",
        "terms": "to",
        "accepted": "from",
        "round": "to",
        "answer": "from",
        "finish": "to",
    }
    rounds = {"to": 0, "from": 0}
    for way, site, message, _ in channel.seen:
        assert {**allowed, "saved": "from"}[message.kind] == way
        assert set(message.fields) == set(KINDS[message.kind][0])
        if message.kind not in ("round", "answer"):
            assert message.numbers is None
            continue
        rounds[way] += 1
        assert set(message.fields) == (
            {"run", "round", "sites"} if way == "to" else {"run", "round", "report"}
        )
        first = message["round"] == 1
        assert (message.numbers is None) == (way == "to" and first)
        if way == "from":
            assert message.numbers.shape == (25,)
            assert not np.isin(message.numbers, own["abc".index(site)]).any()
            assert (message["report"] is None) == (not report)
            assert not report or [type(number) for number in message["report"]] == [float] * 3
    assert rounds == {"to": 3 * result.n_rounds, "from": 3 * result.n_rounds}
    assert (
        sum(size for _, _, message, size in channel.seen if message.kind in ("round", "answer"))
        == result.bytes
    )


def test_bytes_of_a_round_are_those_of_the_predictions():
    items = np.random.default_rng(0).normal(size=(2000, 3))
    sites = make_sites([CoRLS(alpha=1.0, basis="scored") for _ in range(3)], SharedItems(items))
    result = run(sites)
    most = max(own.sent + own.received for own in result.rounds)
    assert most <= 2 * 3 * 2000 * 8 * 1.05


# ------------------------------------------------------------------ privacy


def test_a_site_answers_only_so_many_rounds_in_all_its_runs(items, tmp_path):
    learners = [CoRLS(alpha=1.0, basis="all") for _ in range(2)]
    sites = make_sites(learners, SharedItems(items), limits=Limits(rounds=4), state=tmp_path)
    with pytest.raises(
        RunStopped, match=r"has answered 4 rounds, the most .* raise rounds in its limits"
    ):
        run(sites)
    again = make_sites(learners, SharedItems(items), limits=Limits(rounds=4), state=tmp_path)
    again[0].handle(again_terms("another run", again[0]))
    with pytest.raises(Refused, match="raise rounds"):
        again[0].handle(Message("round", {"run": "another run", "round": 1, "sites": 2}))


def again_terms(name, site):
    fields = {
        "run": name,
        "sites": ["a", "b"],
        "comparison": site.comparison,
        "agreement": 1.0,
        "report": True,
    }
    fields |= {"items": len(site.shared), "digest": site.shared.fingerprint.digest}
    return Message("terms", fields)


def test_a_site_refuses_to_be_pulled_far_away(items):
    (site,) = make_sites([CoRLS(alpha=1.0, basis="all")], SharedItems(items))
    site.handle(again_terms("run", site))
    probe = np.zeros(25)
    probe[3] = 1e4
    with pytest.raises(Refused, match="raise norm in its limits"):
        site.handle(Message("round", {"run": "run", "round": 1, "sites": 2}, probe))
    assert site.answered == 0


@pytest.mark.parametrize("scale", [1.0, 1000.0])
def test_a_refusal_says_nothing_about_the_scores(items, scale):
    X, y = site_rows(1)
    site = Site("a", CoRLS(alpha=1.0, basis="all"), X, scale * y, SharedItems(items))
    site.handle(again_terms("run", site))
    refusal = answered(
        site, Message("round", {"run": "run", "round": 1, "sites": 2}, np.full(25, 1e9))
    )
    assert refusal.kind == "refusal"
    assert refusal["too_far"]
    assert not any(character.isdigit() for character in refusal["reason"])


def test_answers_are_affine_in_the_questions_as_the_page_says(items):
    (site,) = make_sites([CoRLS(alpha=1.0, basis="all")], SharedItems(items))
    site.handle(again_terms("run", site))
    first, second = np.random.default_rng(0).normal(size=(2, 25))
    asked = [np.zeros(25), first, second, 2 * first - 0.5 * second]
    none, a, b, mixed = (
        site.handle(Message("round", {"run": "run", "round": k + 1, "sites": 2}, t)).numbers
        for k, t in enumerate(asked)
    )
    close(mixed - none, 2 * (a - none) - 0.5 * (b - none))


def test_a_site_may_give_predictions_alone_and_terms_stay(items):
    (site,) = make_sites(
        [CoRLS(alpha=1.0, basis="all")], SharedItems(items), limits=Limits(report=False)
    )
    asked = again_terms("run", site)
    with pytest.raises(
        Refused, match="'a' gives predictions alone; set report = false for the run"
    ):
        site.handle(asked)
    site.handle(replace(asked, fields={**asked.fields, "report": False}))
    with pytest.raises(Refused, match="terms of the run 'run' are others than they were"):
        site.handle(replace(asked, fields={**asked.fields, "report": False, "agreement": 9.0}))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"run": "other"}, "does not take part in the run 'other'"),
        ({"sites": 9}, "speaks of 9 sites"),
        ({"values": np.zeros(7)}, "7 numbers for 25 items"),
        ({"values": np.full(25, np.nan)}, "not all finite"),
    ],
)
def test_a_site_refuses_what_it_should_not_be_asked(items, change, words):
    (site,) = make_sites([CoRLS(alpha=1.0, basis="all")], SharedItems(items))
    site.handle(again_terms("run", site))
    change = dict(change)
    values = change.pop("values", None)
    with pytest.raises(Refused, match=words):
        site.handle(Message("round", {"run": "run", "round": 1, "sites": 2, **change}, values))


def test_a_retry_gets_the_same_answer_and_a_replay_none(items):
    (site,) = make_sites([CoRLS(alpha=1.0, basis="all")], SharedItems(items))
    site.handle(again_terms("run", site))
    values = np.linspace(0, 1, 25)
    first = site.handle(Message("round", {"run": "run", "round": 3, "sites": 2}, values))
    again = site.handle(Message("round", {"run": "run", "round": 3, "sites": 2}, values))
    assert first.encoded() == again.encoded()
    assert site.answered == 1
    for number in (2, 3):
        with pytest.raises(Refused, match=f"round {number} was answered before"):
            site.handle(Message("round", {"run": "run", "round": number, "sites": 2}, -values))


# ------------------------------------------------------------------ faults


class Faulty(InProcess):
    """Site "b" misbehaves from round 3 on."""

    def __init__(self, sites, spoil):
        super().__init__(sites)
        self.spoil = spoil

    def ask(self, questions):
        replies = super().ask(questions)
        for name, question in questions.items():
            if name == "b" and question.kind == "round" and question["round"] >= 3:
                replies[name] = self.spoil(replies[name])
        return replies


FAULTS = {
    "it did not answer in 5 s": lambda reply: Fault("it did not answer in 5 s"),
    "it sent nan as prediction of item 4": lambda reply: replace(
        reply, numbers=np.r_[np.zeros(3), np.nan, np.zeros(21)]
    ),
    "it sent 24 predictions for 25 shared items": lambda reply: replace(
        reply, numbers=np.zeros(24)
    ),
    "it answered for the run 'other', not for 'test'": lambda reply: replace(
        reply, fields={**reply.fields, "run": "other"}
    ),
    "it sent a message of the kind 'saved' where 'answer' was due": lambda reply: Message(
        "saved", {"run": "test"}
    ),
    "it answered round 2 in round 3": lambda reply: replace(
        reply, fields={**reply.fields, "round": 2}
    ),
    "it sent 1e[+]200 as prediction of item 2": lambda reply: replace(
        reply, numbers=np.r_[0, 1e200, np.zeros(23)]
    ),
    "its report is not a loss, a norm and a": lambda reply: replace(
        reply, fields={**reply.fields, "report": [1.0, 1.0, 1e200]}
    ),
    "its report is not a loss": lambda reply: replace(
        reply, fields={**reply.fields, "report": [1.0]}
    ),
}


@pytest.mark.parametrize("words", FAULTS)
def test_a_faulty_site_stops_the_run_unless_the_plan_says_to_go_on(items, words):
    sites = make_sites([CoRLS(alpha=1.0, basis="all") for _ in range(3)], SharedItems(items))
    with pytest.raises(RunStopped, match=f"site 'b' is lost in round 3: {words}"):
        run(sites, channel=Faulty(sites, FAULTS[words]))
    sites = make_sites([CoRLS(alpha=1.0, basis="all") for _ in range(3)], SharedItems(items))
    result = run(sites, channel=Faulty(sites, FAULTS[words]), on_missing="continue")
    assert result.sites == ("a", "c")
    assert list(result.lost) == ["b"]
    pair = make_sites([CoRLS(alpha=1.0, basis="all") for _ in range(3)], SharedItems(items))
    close(result.predictions, run([pair[0], pair[2]]).predictions)


@pytest.mark.parametrize("kind", ["accepted", "saved"])
def test_a_reply_for_another_run_is_called_that(items, kind, caplog):
    class Elsewhere(InProcess):
        def ask(self, questions):
            replies = super().ask(questions)
            return {
                name: replace(reply, fields={"run": "other"}) if reply.kind == kind else reply
                for name, reply in replies.items()
            }

    sites = make_sites([CoRLS(alpha=1.0, basis="all") for _ in range(2)], SharedItems(items))
    if kind == "accepted":
        with pytest.raises(
            RunStopped,
            match="'a' does not take part: it answered for the run 'other', not for 'test'",
        ):
            run(sites, channel=Elsewhere(sites))
    else:
        assert run(sites, channel=Elsewhere(sites)).converged
        assert (
            "it did not say that it kept its model: it answered for the run 'other'" in caplog.text
        )


class Liar(InProcess):
    """Site "b" sends other predictions than its own, from a round on."""

    def __init__(self, sites, lie, since=1):
        super().__init__(sites)
        self.lie, self.since = lie, since

    def ask(self, questions):
        replies = super().ask(questions)
        for name, question in questions.items():
            if name == "b" and question.kind == "round" and question["round"] >= self.since:
                replies[name] = replace(replies[name], numbers=self.lie(replies[name].numbers))
        return replies


LIES = {
    "all large": lambda numbers: numbers + 1e6,
    "one item": lambda numbers: np.r_[1e6, numbers[1:]],
    "noise": lambda numbers: 1e9 * np.random.default_rng(0).normal(size=len(numbers)),
}


@pytest.mark.parametrize("since", [1, 4])
@pytest.mark.parametrize("schedule", ["sequential", "parallel"])
@pytest.mark.parametrize("lie", LIES)
def test_whoever_sends_wild_predictions_is_blamed_not_those_who_refuse_them(
    items, lie, schedule, since
):
    def three():
        return make_sites([CoRLS(alpha=1.0, basis="all") for _ in range(3)], SharedItems(items))

    sites, how = three(), {"schedule": schedule}
    with pytest.raises(
        RunStopped, match=r"^site 'b' is lost .* far from those of all other sites"
    ) as stopped:
        run(sites, channel=Liar(sites, LIES[lie], since), **how)
    assert "site 'a' is lost" not in str(stopped.value)
    sites = three()
    result = run(sites, channel=Liar(sites, LIES[lie], since), on_missing="continue", **how)
    assert (result.sites, list(result.lost)) == (("a", "c"), ["b"])
    first, _, last = three()
    close(result.predictions, run([first, last]).predictions)


def test_a_run_goes_on_once_the_site_with_wild_predictions_is_mended(items, tmp_path):
    def three(**how):
        return make_sites(
            [CoRLS(alpha=1.0, basis="all") for _ in range(3)], SharedItems(items), **how
        )

    sites, how = three(state=tmp_path), {"state": tmp_path / "coordinator.state"}
    with pytest.raises(RunStopped, match="site 'b' is lost in round 3"):
        run(sites, channel=Liar(sites, LIES["all large"], 3), **how)
    result = run(three(state=tmp_path), **how)
    assert result.converged
    close(result.predictions, run(three()).predictions)


def test_of_two_sites_both_are_named(items):
    sites = make_sites([CoRLS(alpha=1.0, basis="all") for _ in range(2)], SharedItems(items))
    with pytest.raises(
        RunStopped,
        match=r"'a' is lost .* came from site 'b', and with two sites nobody else can say",
    ):
        run(sites, channel=Liar(sites, LIES["all large"]), on_missing="continue")


def test_a_site_that_refuses_without_cause_drags_nobody_along(items):
    class Refusing(InProcess):
        def ask(self, questions):
            replies = super().ask(questions)
            if questions.get("b") is not None and questions["b"].kind == "round":
                replies["b"] = Fault("it refused", too_far=True)
            return replies

    sites = make_sites([CoRLS(alpha=1.0, basis="all") for _ in range(3)], SharedItems(items))
    assert list(run(sites, channel=Refusing(sites), on_missing="continue").lost) == ["b"]


def test_models_are_kept_also_where_the_last_round_was_broken_off(items):
    sites = make_sites([CoRLS(alpha=1.0, basis="all") for _ in range(3)], SharedItems(items))
    spoilt = Faulty(sites, lambda reply: Fault("it left"))
    result = run(sites, channel=spoilt, on_missing="continue", max_rounds=3)
    assert not result.converged
    assert result.n_rounds == 2
    assert [site.model.agreement_ for site in sites] == [0.4, 0.0, 0.4]


def test_a_site_that_forgot_everything_does_not_end_the_run_too_early(items):
    class Forgetful(InProcess):
        def ask(self, questions):
            # when the gradient is measured
            if len(questions) > 1 and next(iter(questions.values())).kind == "round":
                self.sites["b"]._memory.coefficients[:] = 0.0
            return super().ask(questions)

    learners = [CoRLS(alpha=a, gamma=0.3, basis="all") for a in ALPHAS]
    sites = make_sites(learners, SharedItems(items))
    result = run(sites, channel=Forgetful(sites), max_rounds=80)
    assert not result.converged  # its gradients make no sense
    assert result.n_rounds == 80


def test_too_few_sites_left_stop_the_run(items):
    sites = make_sites([CoRLS(alpha=1.0, basis="all") for _ in range(2)], SharedItems(items))
    with pytest.raises(RunStopped, match="1 sites remain, fewer than min_sites = 2"):
        run(sites, channel=Faulty(sites, lambda reply: Fault("it left")), on_missing="continue")


# ------------------------------------------------------------------ resuming


class Killed(Exception):
    pass


class Dies(InProcess):
    """The coordinator is killed when it asks for the 20th time: in the middle of a round."""

    asked = 0

    def ask(self, questions):
        self.asked += 1
        if self.asked == 20:
            raise Killed
        return super().ask(questions)


@pytest.mark.parametrize(("schedule", "accelerate"), WAYS)
def test_coordinator_and_sites_resume_from_the_last_completed_round(
    items, tmp_path, schedule, accelerate
):
    def fresh():
        learners = [CoRLS(alpha=a, gamma=0.3, basis="all") for a in ALPHAS]
        return make_sites(learners, SharedItems(items), state=tmp_path)

    how = {"schedule": schedule, "accelerate": accelerate, "state": tmp_path / "coordinator.state"}
    sites = fresh()
    with pytest.raises(Killed):
        run(sites, channel=Dies(sites), **how)
    sites = fresh()  # all of them were restarted too
    result = run(sites, **how)
    assert result.converged
    assert result.rounds[0].number > 3
    assert all(site.answered == result.n_rounds for site in sites)
    learners = [CoRLS(alpha=a, gamma=0.3, basis="all") for a in ALPHAS]
    close(
        result.predictions,
        run(make_sites(learners, SharedItems(items)), schedule=schedule).predictions,
    )


def test_a_state_of_other_settings_is_refused(items, tmp_path):
    state = tmp_path / "coordinator.state"
    learners = [CoRLS(alpha=1.0, basis="all") for _ in range(2)]
    run(make_sites(learners, SharedItems(items)), state=state)
    with pytest.raises(
        StateError, match="under other settings; give this run a name and a state of its own"
    ):
        run(make_sites(learners, SharedItems(items)), state=state, agreement=2.0)
    facts, arrays = read_state(state)
    write_state(state, {**facts, "sites": None}, arrays)
    with pytest.raises(StateError, match="not the state of a coordinator; move it away"):
        run(make_sites(learners, SharedItems(items)), state=state)
    state.write_bytes(b"nonsense")
    with pytest.raises(StateError, match="damaged"):
        run(make_sites(learners, SharedItems(items)), state=state)


def mode_of(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_a_full_disk_makes_a_site_neither_answer_nor_count(states, items, monkeypatch):
    (site,) = make_sites(PAIR[:1], SharedItems(items), state=states)
    site.handle(again_terms("another", site))
    before = site.answered

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    asked = Message("round", {"run": "another", "round": 1, "sites": 2})
    with monkeypatch.context() as disk:
        disk.setattr("corank_federated.site.write_state", full)
        for _ in range(2):
            with pytest.raises(OSError, match="No space left"):
                site.handle(asked)
    assert site.answered == before
    assert site.handle(asked).kind == "answer"
    assert read_state(states / "a.state")[0]["answered"] == site.answered == before + 1


def test_a_model_is_kept_before_the_coordinator_hears_that_it_is(items):
    kept = []
    sites = make_sites(PAIR, SharedItems(items))
    sites[0].keep = lambda site: kept.append(site.model.agreement_)
    run(sites, max_rounds=2)
    assert kept == [0.4]

    def full(site):
        raise OSError("full")

    sites[0].keep = full
    with pytest.raises(OSError, match="full"):
        sites[0].handle(Message("finish", {"run": "test", "round": 2, "converged": False}))


def test_states_are_for_their_owners_alone(states):
    assert {mode_of(path) for path in states.glob("*.state")} == {0o600}


PAIR = [CoRLS(alpha=1.0, basis="all") for _ in range(2)]


@pytest.fixture(scope="module")
def states_of_a_run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("states")
    shared = SharedItems(np.random.default_rng(9).normal(size=(25, 3)))
    run(make_sites(PAIR, shared, state=folder), state=folder / "coordinator.state", max_rounds=3)
    return folder


@pytest.fixture
def states(states_of_a_run, tmp_path):
    """State files of a run that has not ended."""
    return shutil.copytree(states_of_a_run, tmp_path, dirs_exist_ok=True)


@pytest.mark.parametrize("whose", ["coordinator", "a"])
def test_a_damaged_state_is_refused(items, states, whose):
    state = states / f"{whose}.state"
    content = bytearray(state.read_bytes())
    content[-5] ^= 1
    state.write_bytes(content)
    with pytest.raises(
        StateError, match=rf"{whose}.state .* does not match its checksum; move it away"
    ):
        run(make_sites(PAIR, SharedItems(items), state=states), state=states / "coordinator.state")


@pytest.mark.parametrize(
    ("whose", "change", "arrays"),
    [
        ("coordinator", {"sites": ["a", "x"]}, {}),
        ("coordinator", {"sites": ["a", "a"]}, {}),
        ("coordinator", {"lost": 3}, {}),
        ("coordinator", {}, {"x": np.zeros(25)}),
        ("coordinator", {}, {"x": np.zeros((3, 25))}),
        ("coordinator", {}, {"x": np.full((2, 25), np.nan)}),
        ("a", {"report": "abc"}, {}),
        ("a", {"round": "many"}, {}),
        ("a", {"answered": -1}, {}),
        ("a", {}, {"values": np.zeros(7)}),
        ("a", {}, {"values": np.full(25, np.inf)}),
        ("a", {}, {"coefficients": np.full(39, np.nan)}),
    ],
)
def test_a_state_that_makes_no_sense_is_refused_in_a_sentence(items, states, whose, change, arrays):
    facts, before = read_state(states / f"{whose}.state")
    write_state(states / f"{whose}.state", {**facts, **change}, {**before, **arrays})
    with pytest.raises(StateError, match=rf"{whose}.state is not the state of a"):
        run(make_sites(PAIR, SharedItems(items), state=states), state=states / "coordinator.state")


def test_a_run_that_had_ended_says_so_again(items, tmp_path):
    learners = [CoRLS(alpha=1.0, basis="all") for _ in range(2)]
    how = {"state": tmp_path / "coordinator.state"}
    first = run(make_sites(learners, SharedItems(items), state=tmp_path), **how)
    again = run(make_sites(learners, SharedItems(items), state=tmp_path), **how)
    assert (again.n_rounds, again.converged, again.rounds) == (first.n_rounds, True, [])
    np.testing.assert_array_equal(again.predictions, first.predictions)


@pytest.mark.parametrize("change", ["scores", "rows", "alpha", "items"])
def test_a_site_with_other_data_does_not_take_up_what_it_said_before(items, tmp_path, change):
    X, y = site_rows(1)
    learners = [CoRLS(alpha=1.0, gamma=0.3, basis=5) for _ in range(2)]
    report = run(make_sites(learners, SharedItems(items, ids=range(25)), state=tmp_path))
    given = {"X": X, "y": y, "learner": learners[0], "shared": SharedItems(items, ids=range(25))}
    other = {
        "scores": {"y": -y},
        "rows": {"X": X + 1},
        "alpha": {"learner": CoRLS(alpha=2.0, gamma=0.3, basis=5)},
    }
    other["items"] = {"shared": SharedItems(items + 1, ids=range(25))}
    site = Site("a", limits=MANY, state=tmp_path / "a.state", **{**given, **other[change]})
    assert site.answered == report.n_rounds
    site.handle(
        Terms("test", ("a", "b"), "regression", 0.4, 25, site.shared.fingerprint.digest).message()
    )
    with pytest.raises(
        Refused, match=f"ended at round {report.n_rounds}, but the last one here is 0"
    ):
        site.handle(Message("finish", {"run": "test", "round": report.n_rounds, "converged": True}))


def test_an_agreement_beyond_all_numbers_is_refused_in_words(items):
    sites = make_sites([CoRLS(alpha=1.0, basis="all") for _ in range(2)], SharedItems(items))
    with (
        np.errstate(all="ignore"),
        pytest.raises(RunStopped, match="finds no finite answer to round 2"),
    ):
        run(sites, agreement=1e308)


def test_a_site_that_says_it_has_less_than_no_items(items):
    sites = make_sites([CoRLS(alpha=1.0, basis="all") for _ in range(2)], SharedItems(items))
    hello = sites[1].hello
    sites[1].hello = lambda: replace(hello(), fields={**hello().fields, "items": -5})
    with pytest.raises(RunStopped, match="site 'b' introduced itself as something else"):
        run(sites)


# ------------------------------------------------------------------ models


def test_a_site_keeps_a_normal_model(items, tmp_path):
    sites = make_sites([CoRLS(alpha=1.0, basis="all") for _ in range(2)], SharedItems(items))
    run(sites)
    sites[0].model.save(tmp_path / "a.corank")
    assert mode_of(tmp_path / "a.corank") == 0o600  # it holds rows
    model = load(tmp_path / "a.corank")
    model.save(tmp_path / "copy.corank")
    assert mode_of(tmp_path / "copy.corank") == 0o600
    np.testing.assert_array_equal(model.predict(items), sites[0].model.predict(items))
    assert model.agreement_ == 0.4
    assert model.table_ == {"federated": "test", "site": "a", "sites": 2}
    with pytest.raises(ValueError, match="run the rounds again"):
        model.update(items[:2], [1.0, 2.0])


# ------------------------------------------------------------------ bad input


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"agreement": 0.0}, "agreement must be greater than 0"),
        ({"schedule": "random"}, "schedule must be 'sequential' or 'parallel'"),
        ({"sites": ("a",)}, "two sites or more"),
        ({"sites": ("a", "a")}, "each once"),
        ({"tol": 0.0}, "tol must lie between"),
        ({"on_missing": "wait"}, "on_missing must be"),
        ({"min_sites": 4}, "min_sites must lie between"),
        ({"max_rounds": 1}, "max_rounds must be"),
        ({"run": ""}, "run needs a name"),
    ],
)
def test_a_plan_names_what_is_wrong_with_it(change, words):
    with pytest.raises(ValueError, match=words):
        Plan(**{"run": "r", "sites": ("a", "b", "c"), "agreement": 1.0, **change})


def test_a_site_whose_scores_are_all_the_same_says_how_far_it_may_be_pulled(items):
    X, y = site_rows(1)
    for level in (0.0, 0.1, 3.0):
        with pytest.raises(
            ValueError, match=r"scores of site 'a' are all the same.*give norm in its limits"
        ):
            Site("a", CoRLS(1, alpha=1.0), X, 0 * y + level, SharedItems(items))
    tame = Site(
        "a", CoRLS(1, alpha=1.0), X, 0 * y + 3, SharedItems(items), limits=Limits(norm=20.0)
    )
    assert run([tame, make_sites([CoRLS(alpha=1.0)] * 2, SharedItems(items))[1]]).converged


def test_a_state_needs_a_folder_before_the_first_round(items, tmp_path):
    with pytest.raises(StateError, match=r"the folder .*none for the state does not exist"):
        make_sites([CoRLS(alpha=1.0)], SharedItems(items), state=tmp_path / "none")


def test_a_site_names_what_is_wrong_with_its_learner(items):
    X, y = site_rows(1)
    with pytest.raises(TypeError, match="learner must be a CoRLS or a CoRankRLS, got LinearThing"):
        Site("a", type("LinearThing", (), {})(), X, y, SharedItems(items))
    with pytest.raises(ValueError, match="a site has one view, got 2"):
        Site("a", CoRLS([View(0), View(1)]), X, y, SharedItems(items))
    with pytest.raises(ValueError, match="precomputed"):
        Site("a", CoRLS(kernel="precomputed"), X, y, SharedItems(items))
    with pytest.raises(ValueError, match="ids holds '1' more than once"):
        SharedItems(items, ids=[1] * 25)
    with pytest.raises(ValueError, match="queries has 2 entries, but there are 25"):
        SharedItems(items, queries=[1, 2])


def test_a_site_that_only_predicts_is_told_so(items):
    sites = make_sites([CoRLS(alpha=1.0) for _ in range(2)], SharedItems(items))
    sites[1].hello = ModelServer("b", None, "regression", 10).hello
    with pytest.raises(
        RunStopped, match="site 'b' has its model and only predicts; start it with --force"
    ):
        run(sites)


def test_sites_that_compare_differently_do_not_start(items):
    X, y = site_rows(1)
    sites = [
        Site("a", CoRLS(alpha=1.0), X, y, SharedItems(items)),
        Site("b", CoRankRLS(alpha=1.0), X, y, SharedItems(items)),
    ]
    with pytest.raises(RunStopped, match="site 'a' does regression, but site 'b' ranking by size"):
        run(sites)
