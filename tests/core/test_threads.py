"""Blocks are worked on by several threads: results, order and the limits of BLAS stay as they are."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from corank import AutoRegressor, Candidate, RankRLS
from corank.core.arrays import in_one_thread, in_order

RNG = np.random.default_rng(0)
X, Y, QID = RNG.normal(size=(20_000, 8)), RNG.normal(size=20_000), np.arange(20_000) // 10


def blas_threads():
    return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]


def fitted():
    return RankRLS(basis=np.arange(200), alpha=1.0).fit(X, Y, qid=QID).coef_


def test_results_do_not_depend_on_the_number_of_threads():
    with threadpool_limits(1, user_api="blas"):
        alone = fitted()
    np.testing.assert_allclose(fitted(), alone, rtol=1e-7)
    np.testing.assert_array_equal(fitted(), fitted())


def test_blas_has_its_threads_back_after_fits_that_overlap():
    before = blas_threads()
    with ThreadPoolExecutor(3) as pool:
        results = list(pool.map(lambda _: fitted(), range(6)))
    assert blas_threads() == before
    for result in results[1:]:
        np.testing.assert_allclose(result, results[0], rtol=1e-7)


def test_blas_has_its_threads_back_after_rounds_of_overlapping_work():
    before = blas_threads()
    for _ in range(3):
        with ThreadPoolExecutor(3) as pool:
            list(
                pool.map(
                    lambda _: list(in_order(np.sum, [np.ones(1000)] * 20, np.empty(0))), range(30)
                )
            )
        assert blas_threads() == before


def test_an_error_in_a_block_reaches_the_caller_and_leaves_no_limit_behind():
    before = blas_threads()

    def step(job):
        if job == 3:
            raise RuntimeError("block 3")
        return job

    with pytest.raises(RuntimeError, match="block 3"):
        list(in_order(step, range(10), np.empty(0)))
    assert blas_threads() == before


def test_results_come_in_the_order_of_the_jobs():
    assert list(in_order(lambda job: job * job, range(50), np.empty(0))) == [
        job * job for job in range(50)
    ]


def test_jobs_have_the_threads_that_blas_gave_up():
    before = blas_threads()
    with in_one_thread(np.empty(0), with_jobs=True) as threads:
        limits = list(in_order(lambda job: (job, *blas_threads()), range(20), np.empty(0)))
    assert threads == max(before)
    assert limits == [(job, *np.ones_like(before)) for job in range(20)]
    assert blas_threads() == before


def test_the_limit_of_blas_lasts_until_the_last_block_has_ended():
    before = blas_threads()
    first, second = in_one_thread(np.empty(0)), in_one_thread(np.empty(0))
    first.__enter__()
    assert second.__enter__() == 1
    first.__exit__(None, None, None)
    assert blas_threads() == [1] * len(before)
    second.__exit__(None, None, None)
    assert blas_threads() == before


def test_an_average_does_not_depend_on_the_number_of_threads():
    candidates = [Candidate(width=width, relevance=width > 2) for width in (1.0, 2.0, 4.0, 8.0)]

    def predicted():
        return AutoRegressor(candidates=candidates).fit(X[:400], Y[:400]).predict(X[:50])

    with threadpool_limits(1, user_api="blas"):
        alone = predicted()
    with threadpool_limits(3, user_api="blas"):
        np.testing.assert_allclose(predicted(), alone, rtol=1e-10)
