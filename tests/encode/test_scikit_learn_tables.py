"""skrub's TableVectorizer in front of our learners, as docs/scikit-learn.md shows it."""

import re
from pathlib import Path

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from corank import RLS, AutoRanker, AutoRegressor, RankRLS
from corank.datasets import make_shop
from corank.metrics import disagreement_error

skrub = pytest.importorskip("skrub")
PAGE = Path(__file__).parents[2] / "docs" / "scikit-learn.md"


@pytest.mark.parametrize(
    "learner", [AutoRanker(), AutoRegressor(), RankRLS(), RLS()], ids=lambda it: type(it).__name__
)
def test_a_table_vectorizer_stands_in_front_of_a_learner(learner):
    shop = make_shop(n_items=200, n_scored=60, random_state=0)
    frame = shop.X.drop_columns(["embedding"]).to_pandas()
    pipeline = make_pipeline(skrub.TableVectorizer(), StandardScaler(), learner).fit(frame, shop.y)
    unrated = np.isnan(shop.y)
    assert disagreement_error(shop.ratings[unrated], pipeline.predict(frame)[unrated]) < 0.45


def test_the_snippet_of_the_page_runs():
    (snippet,) = re.findall(
        r"needs skrub[^\n]*\n```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL
    )
    exec(compile(snippet, str(PAGE), "exec"), {})  # noqa: S102
