"""Kernels that are products and sums of kernels of blocks of columns; and complete grids of pairs,
which are learned from by the two factors, against a general minimiser and literal refitting.
"""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from brute_force import REGRESSION, Loss, fit_predict, held_out, kernel, leave_groups_out

import corank
from corank import (
    KPCR,
    RLS,
    CoRankRLS,
    DifferenceGP,
    KPCRank,
    MatchingPursuit,
    PreferenceGP,
    ProductKernel,
    RankingPursuit,
    RankRLS,
    SumKernel,
    TransductiveRankRLS,
    View,
)

N_PEOPLE, N_ITEMS = 6, 7
rng = np.random.default_rng(0)
PEOPLE, ITEMS = rng.normal(size=(N_PEOPLE, 2)), rng.normal(size=(N_ITEMS, 3))
ORDER = rng.permutation(N_PEOPLE * N_ITEMS)
X = np.hstack([np.repeat(PEOPLE, N_ITEMS, axis=0), np.tile(ITEMS, (N_PEOPLE, 1))])[ORDER]
PERSON = np.repeat(np.arange(N_PEOPLE), N_ITEMS)[ORDER]
ITEM = np.tile(np.arange(N_ITEMS), N_PEOPLE)[ORDER]
Y = X[:, 0] * X[:, 2] + X[:, 3] + 0.3 * rng.normal(size=len(X)) + 4
NEW = np.vstack(
    [
        rng.normal(size=(4, 5)),  # new people and new items
        np.hstack([rng.normal(size=(3, 2)), X[:3, 2:]]),  # new people
        np.hstack([X[:3, :2], rng.normal(size=(3, 3))]),  # new items
        X[5:9],
    ]
)
WIDTHS = 0.4, 0.7
PAIRS = ProductKernel([View([0, 1], gamma=0.4), View([2, 3, 4], "laplacian", 0.7)])
ALPHAS = [0.01, 0.1, 1.0, 10.0]
FACTORS = kernel("rbf", 0.4), kernel("laplacian", 0.7)


def product(A, B):
    return FACTORS[0](A[:, :2], B[:, :2]) * FACTORS[1](A[:, 2:], B[:, 2:])


def total(A, B):
    return FACTORS[0](A[:, :2], B[:, :2]) + FACTORS[1](A[:, 2:], B[:, 2:])


def is_by_factors(model):
    return model.function_.parts[0].span.grid is not None


GRIDS = {
    "pairs": (RLS(ALPHAS, kernel=PAIRS, gamma="scale"), None),
    "pairs without intercept": (
        RLS(ALPHAS, fit_intercept=False, kernel=PAIRS, gamma="scale"),
        None,
    ),
    "rescaled": (RLS(ALPHAS, kernel=PAIRS, gamma="scale", scoring="rescaled"), None),
    "people": (RLS(ALPHAS, kernel=PAIRS, gamma="scale"), PERSON),
    "items": (RLS(ALPHAS, kernel=PAIRS, gamma="scale"), ITEM),
    "rank items": (RankRLS(ALPHAS, kernel=PAIRS, gamma="scale"), PERSON),
    "rank people": (RankRLS(ALPHAS, weighting="unit", kernel=PAIRS, gamma="scale"), ITEM),
    "rank, rescaled": (
        RankRLS(ALPHAS, weighting="query", kernel=PAIRS, gamma="scale", scoring="rescaled"),
        PERSON,
    ),
    "rank, disagreement": (
        RankRLS(ALPHAS, kernel=PAIRS, gamma="scale", scoring="disagreement"),
        PERSON,
    ),
    "blend": (RankRLS(ALPHAS, beta=0.3, kernel=PAIRS, gamma="scale"), ITEM),
}


@pytest.mark.parametrize("name", GRIDS)
def test_grids_against_a_general_minimiser_and_literal_refitting(name):
    learner, qid = GRIDS[name]
    model = learner.fit(X, Y, qid=qid)
    assert is_by_factors(model)
    ranks = isinstance(learner, RankRLS)
    loss = Loss(learner.weighting, learner.beta) if ranks else REGRESSION
    intercept = not ranks and learner.fit_intercept
    expected = fit_predict(X, Y, NEW, product, model.alpha_, loss, qid=qid, intercept=intercept)
    np.testing.assert_allclose(model.predict(NEW), expected, rtol=1e-8, atol=1e-8)
    groups = np.arange(len(X)) if qid is None else qid
    score = {"rescaled": "rescaled", "disagreement": "disagreement"}.get(learner.scoring, "loss")
    errors = held_out(
        X, Y, leave_groups_out(groups), product, ALPHAS, loss,
        qid=qid, intercept=intercept, score=score,
    )  # fmt: skip
    np.testing.assert_allclose(model.path_.error, errors, rtol=1e-8)


def test_a_grid_needs_every_pair_once_and_queries_that_are_its_rows():
    some = np.arange(len(X) - 1)
    mixed = np.where(PERSON > 3, 3, PERSON)
    fits = [
        RLS(1.0, kernel=PAIRS).fit(X[some], Y[some]),
        RLS(1.0, kernel=PAIRS).fit(X[np.r_[some, 0]], Y[np.r_[some, 0]]),
    ]
    assert not any(is_by_factors(model) for model in fits)
    model = RankRLS(1.0, kernel=PAIRS, gamma="scale").fit(X, Y, qid=mixed)
    expected = fit_predict(X, Y, NEW, product, 1.0, Loss(), qid=mixed)
    np.testing.assert_allclose(model.predict(NEW), expected, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("flat", [0.0, 1.0])
@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("qid", [None, PERSON, ITEM], ids=["pairs", "people", "items"])
def test_grids_whose_one_kernel_says_nothing(flat, side, qid):
    def constant(A, B):
        return np.full((len(A), len(B)), flat)

    views = list(PAIRS.views)
    views[side] = View(views[side].columns, constant)
    learner = (RLS if qid is None else RankRLS)(0.5, kernel=ProductKernel(views), gamma="scale")

    def values(A, B):
        parts = [FACTORS[0](A[:, :2], B[:, :2]), FACTORS[1](A[:, 2:], B[:, 2:])]
        return flat * parts[1 - side]

    loss = REGRESSION if qid is None else Loss()
    expected = fit_predict(X, Y, NEW, values, 0.5, loss, qid=qid, intercept=qid is None)
    fitted = learner.fit(X, Y, qid=qid)
    np.testing.assert_allclose(fitted.predict(NEW), expected, rtol=1e-7, atol=1e-8)
    path = learner.set_params(alpha="tune").fit(X, Y, qid=qid).path_
    assert np.isfinite(path.error).all()


def test_held_out_predictions_of_a_grid_are_those_of_refits():
    model = RLS(0.3, kernel=PAIRS, gamma="scale").fit(X, Y)
    expected = [
        fit_predict(X[kept], Y[kept], X[row : row + 1], product, 0.3, intercept=True)[0]
        for row, kept in enumerate(np.arange(len(X)) != row for row in range(len(X)))
    ]
    np.testing.assert_allclose(model.held_out_predictions_, expected, rtol=1e-8)
    model = RankRLS(0.3, kernel=PAIRS, gamma="scale").fit(X, Y, qid=ITEM)
    for train, test in leave_groups_out(ITEM):
        scores = fit_predict(X[train], Y[train], X[test], product, 0.3, Loss(), qid=ITEM[train])
        told = model.held_out_predictions_[test]
        np.testing.assert_allclose(told, scores - scores.mean(), rtol=1e-7, atol=1e-8)


def test_several_columns_of_scores_share_a_grid():
    both = np.stack([Y, Y**2], axis=1)
    model = RankRLS(kernel=PAIRS, gamma="scale").fit(X, both, qid=ITEM)
    for number, column in enumerate(both.T):
        single = RankRLS(kernel=PAIRS, gamma="scale").fit(X, column, qid=ITEM)
        np.testing.assert_allclose(model.alpha_[number], single.alpha_)
        np.testing.assert_allclose(model.predict(NEW)[:, number], single.predict(NEW), rtol=1e-9)


def test_weights_and_splits_of_a_grid_are_those_of_any_rows():
    weights = rng.uniform(0.5, 2, size=len(X))
    learner = RLS(0.3, kernel=PAIRS, gamma="scale")
    expected = fit_predict(X, Y, NEW, product, 0.3, weights=weights, intercept=True)
    fitted = learner.fit(X, Y, sample_weight=weights)
    np.testing.assert_allclose(fitted.predict(NEW), expected, rtol=1e-8)
    halves = [(np.arange(20), np.arange(20, 42)), (np.arange(20, 42), np.arange(20))]
    model = RLS(ALPHAS, kernel=PAIRS, gamma="scale", cv=halves).fit(X, Y)
    errors = held_out(X, Y, halves, product, ALPHAS, intercept=True)
    np.testing.assert_allclose(model.path_.error, errors, rtol=1e-8)


def test_a_large_grid_takes_all_pairs_as_basis():
    people, items = rng.normal(size=(90, 2)), rng.normal(size=(70, 3))
    rows = np.hstack([np.repeat(people, 70, axis=0), np.tile(items, (90, 1))])
    scores = rows[:, 0] * rows[:, 2] + rows[:, 3]
    model = RankRLS(kernel=PAIRS).fit(rows, scores, qid=np.repeat(np.arange(90), 70))
    assert len(model.coef_) == len(rows)
    assert model.path_.least < 0.1 * model.path_.constant
    known = rng.permutation(len(rows))[:50]
    np.testing.assert_allclose(
        model.predict(rows)[known], model.predict(rows[known]), rtol=1e-8, atol=1e-8
    )
    with pytest.raises(ValueError, match="update would make so many pairs an incomplete grid"):
        model.update(rows[:2], scores[:2], qid=np.zeros(2))
    with pytest.raises(ValueError, match="cv does not go with a complete grid of 6,300 pairs"):
        RLS(kernel=PAIRS, cv=3).fit(rows, scores)


def test_grids_are_saved_loaded_and_updated(tmp_path):
    model = RankRLS(kernel=PAIRS).fit(X, Y, qid=PERSON)
    model.save(tmp_path / "pairs.corank")
    loaded = corank.load(tmp_path / "pairs.corank")
    assert is_by_factors(loaded)
    np.testing.assert_array_equal(loaded.predict(NEW), model.predict(NEW))
    assert loaded.kernel == model.kernel
    more = NEW[:4], np.arange(4.0)
    again = loaded.update(*more, qid=np.zeros(4)).predict(NEW)
    rows, scores = np.vstack([X, more[0]]), np.r_[Y, more[1]]
    queries = np.r_[PERSON, np.full(4, 99)]
    refitted = RankRLS(model.alpha_, kernel=PAIRS, gamma=model.gamma_).fit(
        rows, scores, qid=queries
    )
    np.testing.assert_allclose(again, refitted.predict(NEW), rtol=1e-6, atol=1e-8)


LEARNERS = [
    RLS(),
    RankRLS(),
    RankRLS(basis=10),
    KPCR(),
    KPCRank(),
    MatchingPursuit(3),
    RankingPursuit(3),
    DifferenceGP(),
    TransductiveRankRLS(),
]


@pytest.mark.parametrize("learner", LEARNERS, ids=lambda learner: repr(learner)[:20])
@pytest.mark.parametrize(("joint", "values"), [(ProductKernel, product), (SumKernel, total)])
def test_every_learner_takes_products_and_sums_as_it_takes_their_values(learner, joint, values):
    rows, scores = X[:30], Y[:30].copy()
    queries = PERSON[:30]
    if isinstance(learner, TransductiveRankRLS):
        scores[queries == queries[0]] = np.nan
    joined = joint(PAIRS.views)
    options = {"gamma": 1.0, "amplitude": 1.0, "noise": 0.1} | {"alpha": 0.2}
    known = {name: value for name, value in options.items() if name in learner.get_params()}
    learner = corank_clone(learner).set_params(**known)
    model = learner.set_params(kernel=joined).fit(rows, scores, qid=queries)
    other = corank_clone(learner).set_params(kernel="precomputed")
    other.fit(values(rows, rows), scores, qid=queries)
    np.testing.assert_allclose(
        model.predict(NEW), other.predict(values(NEW, rows)), rtol=1e-6, atol=1e-7
    )


def corank_clone(learner):
    return type(learner)(**learner.get_params())


def test_comparisons_and_views_take_joint_kernels():
    winners, losers = np.arange(40), np.arange(1, 41)
    model = PreferenceGP(kernel=PAIRS, gamma=1.0, amplitude=1.0).fit_comparisons(X, winners, losers)
    other = PreferenceGP(kernel="precomputed", amplitude=1.0)
    other.fit_comparisons(product(X, X), winners, losers)
    np.testing.assert_allclose(model.predict(NEW), other.predict(product(NEW, X)), rtol=1e-5)
    nested = SumKernel([View([4], "linear"), View([0, 1, 2, 3, 4], PAIRS)])
    views = [View([0, 1, 2, 3, 4], nested, 1.0), View([2], gamma=1.0)]
    scores = np.where(np.arange(len(X)) < 30, Y, np.nan)
    with pytest.warns(UserWarning, match="share"):
        model = CoRankRLS(views, 0.5, 0.1).fit(X, scores, qid=PERSON)
    K = product(X, X) + np.outer(X[:, 4], X[:, 4])
    second = kernel("rbf", 1.0)(X[:, 2:3], X[:, 2:3])
    matrix, views = corank.side_by_side([K, second], kernel="precomputed")
    other = CoRankRLS(views, 0.5, 0.1).fit(matrix, scores, qid=PERSON)
    np.testing.assert_allclose(model.predict_views(X), other.predict_views(matrix), rtol=1e-6)


def test_blocks_by_names_of_columns_and_by_the_scale_of_their_rows():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=["p_1", "p_2", "i_1", "i_2", "i_3"])
    named = RankRLS(kernel=ProductKernel([View("p_*"), View(["i_1", "i_*"])]), alpha=1.0, gamma=2.0)
    scales = [2 / (block.shape[1] * block.var()) for block in (X[:, :2], X[:, 2:])]
    plain = [View([0, 1], gamma=scales[0]), View([2, 3, 4], gamma=scales[1])]
    fixed = RankRLS(kernel=ProductKernel(plain), alpha=1.0, gamma=1.0).fit(X, Y, qid=PERSON)
    np.testing.assert_allclose(
        named.fit(frame, Y, qid=PERSON).predict(frame), fixed.predict(X), rtol=1e-9
    )


@pytest.mark.parametrize(
    ("views", "message"),
    [
        ([View([0], "precomputed")], "'precomputed' of view 1 cannot be multiplied or added"),
        ([View([0], "nothing")], "'nothing' of view 1"),
        *(
            (
                [View([0], gamma=gamma)],
                "gamma of view 1 must be 'scale', 'mean-distance' or a number",
            )
            for gamma in ("tune", 0, -1.0, np.nan, None, np.ones(1))
        ),
        ([View([9])], "columns of view 1 lie outside X"),
        ([View("a_*")], "columns of view 1 are given by name"),
        ([], "list of View"),
        (3, "list of View"),
    ],
)
def test_what_joint_kernels_refuse(views, message):
    with pytest.raises((ValueError, TypeError), match=message):
        RankRLS(kernel=ProductKernel(views)).fit(X, Y, qid=PERSON)


def test_a_long_grid_is_taken_whole_only_when_asked(monkeypatch):
    """One person and very many items are a grid, too, whose factor is as large as all rows."""
    monkeypatch.setattr(RLS, "_auto_basis", (20, 10))
    rows = np.hstack([np.repeat(PEOPLE[:1], 30, axis=0), rng.normal(size=(30, 3))])
    learner = RLS(1.0, kernel=PAIRS)
    with pytest.warns(UserWarning, match="takes 10 of 30 rows as basis"):
        assert len(learner.fit(rows, rows[:, 3]).coef_) == 10
    assert len(learner.set_params(basis="all").fit(rows, rows[:, 3]).coef_) == 30
    assert len(learner.set_params(basis="auto").fit(X, Y).coef_) == len(X)


def test_mean_distance_is_a_width_of_the_views_of_a_joint_kernel():
    kernel = ProductKernel([View([0, 1], gamma="mean-distance"), View([2, 3, 4])])
    fitted = RankRLS(kernel=kernel, alpha=1.0, gamma=1.0).fit(X, Y, qid=PERSON)
    (part,) = fitted.function_.parts
    alone = RankRLS(alpha=1.0, gamma="mean-distance").fit(X[:, :2], Y, qid=PERSON)
    np.testing.assert_allclose(part.span.kernel.parts[0].gamma, alone.gamma_, rtol=1e-9)
    with pytest.raises(ValueError, match="gamma='mean-distance' is for the views of a product"):
        RankRLS(kernel=kernel, alpha=1.0, gamma="mean-distance").fit(X, Y, qid=PERSON)


def test_an_incomplete_grid_is_learned_from_in_passes(tmp_path):
    people, items = rng.normal(size=(40, 2)), rng.normal(size=(50, 3))
    chosen = rng.permutation(2_000)[:1_500]
    rows = np.hstack([people[chosen // 50], items[chosen % 50]])
    scores = rows[:, 0] * rows[:, 2]
    queries = np.sort(chosen // 50)
    rows, scores = rows[np.argsort(chosen // 50)], scores[np.argsort(chosen // 50)]
    columns = {f"x{number}": column for number, column in enumerate(rows.T)}
    pq.write_table(pa.table(columns | {"y": scores, "q": queries}), tmp_path / "pairs.parquet")
    chunks = corank.scan(tmp_path / "pairs.parquet", score="y", query="q", chunk_rows=400)
    learner = RankRLS(kernel=PAIRS, basis=300, gamma="scale")
    model = learner.fit(chunks)
    expected = corank_clone(learner).fit(rows, scores, qid=queries)
    new = pa.table({f"x{number}": column for number, column in enumerate(NEW.T)})
    np.testing.assert_allclose(model.predict(new), expected.predict(NEW), rtol=1e-5, atol=1e-6)
    assert model.score(chunks) > 0.9
