"""Free text as numbers: what `TextFeatures` promises."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer

from corank.encode import text
from corank.encode.text import TextFeatures, clean

WORDS = [
    "solar",
    "panels",
    "heat",
    "water",
    "winter",
    "bread",
    "rises",
    "slowly",
    "warm",
    "ovens",
    "cats",
    "sleep",
]


def column(texts: list[str | None]) -> pa.ChunkedArray:
    return pa.chunked_array([pa.array(texts, pa.large_string())])


def sentences(n: int, seed: int = 0) -> list[str]:
    rng = np.random.default_rng(seed)
    return [" ".join(rng.choice(WORDS, rng.integers(3, 9))) for _ in range(n)]


def learned(texts: list[str | None]) -> TextFeatures:
    features, _ = TextFeatures.learn(column(texts))
    assert features is not None
    return features


def encoded(features: TextFeatures, texts: list[str | None]) -> Any:
    out = np.zeros((len(texts), len(features.components)))
    features.encode(column(texts), out)
    return out


@pytest.fixture
def hashed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits so low that 60 sentences are a large collection."""
    monkeypatch.setattr(text, "MAX_VOCABULARY_BYTES", 100)
    monkeypatch.setattr(text, "MAX_DECOMPOSED_ROWS", 40)
    monkeypatch.setattr(text, "HASHED_TERMS", 2**9)
    monkeypatch.setattr(text, "CHUNK_BYTES", 300)


def test_weights_are_the_tf_idf_of_scikit_learn() -> None:
    texts = sentences(30)
    features = learned([*texts])
    assert isinstance(features.words, tuple)
    expected: Any = TfidfVectorizer(sublinear_tf=True, vocabulary=features.words).fit(texts)
    np.testing.assert_allclose(features.idf[: len(features.words)], expected.idf_, rtol=1e-12)


def test_the_inner_product_of_two_texts_is_that_of_their_tf_idf_where_no_component_is_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(text, "MAX_COMPONENTS", 1000)
    texts = sentences(12)
    features = learned([*texts])
    kernel = np.zeros((12, 12))
    for terms, options in (
        (features.words, text.ANALYZERS["words"]),
        (features.characters, text.ANALYZERS["characters"]),
    ):
        weights = TfidfVectorizer(sublinear_tf=True, vocabulary=terms, **options).fit_transform(
            texts
        )
        kernel += 0.5 * (weights @ weights.T).toarray()
    scores = encoded(features, [*texts])
    # eleven of twelve directions are kept: what is lost is the least of them
    scale = np.trace(kernel) / np.trace(scores @ scores.T)
    np.testing.assert_allclose(scale * scores @ scores.T, kernel, atol=0.1)


def test_texts_have_the_mean_squared_length_1_and_those_without_words_are_zero() -> None:
    texts = [*sentences(20), None, ""]
    features = learned(texts)
    rows = encoded(features, texts)
    assert np.sum(rows**2) == pytest.approx(20, rel=1e-6)
    assert not rows[20:].any()
    assert not encoded(features, [None, "", "  ", "@ !", "凪"]).any()


def test_learning_encodes_what_encoding_gives_bit_for_bit() -> None:
    texts = [*sentences(40), None]
    features, by_the_way = TextFeatures.learn(column(texts))
    assert features is not None
    assert by_the_way is not None
    assert by_the_way.tobytes() == encoded(features, texts).tobytes()
    assert (
        TextFeatures.learn(column(texts))[0].components.tobytes() == features.components.tobytes()
    )  # type: ignore[union-attr]


def test_texts_on_one_subject_are_closer_than_others() -> None:
    garden = [f"roses and tulips need water in the garden bed {n}" for n in range(15)]
    engine = [f"the engine burns diesel and drives both axles {n}" for n in range(15)]
    features = learned([*garden, *engine])
    rows = encoded(features, ["watering tulip beds", "a diesel motor"])
    means = encoded(features, [*garden, *engine]).reshape(2, 15, -1).mean(axis=1)
    near, far = rows @ means.T
    assert near[0] > near[1]
    assert far[1] > far[0]


def test_no_text_and_texts_without_terms_have_no_features() -> None:
    collections: list[list[str | None]] = [["", None, ""], [" ", "\n", "<br/>"], [None, None]]
    for texts in collections:
        assert TextFeatures.learn(column(texts)) == (None, None)


def test_one_text_has_no_component() -> None:
    assert TextFeatures.learn(column(["three words here"])) == (None, None)


def test_repeated_texts_have_as_many_components_as_differ() -> None:
    assert len(learned(["warm bread", "cold water", "old cats"] * 10).components) == 3


def test_texts_that_differ_by_rare_terms_only_are_all_the_same() -> None:
    texts: list[str | None] = [f"warm bread {n}" for n in range(10, 22)]
    np.testing.assert_allclose(np.abs(encoded(learned(texts), texts)), 1.0, rtol=1e-6)


def test_terms_and_components_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text, "MAX_TERMS", 20)
    monkeypatch.setattr(text, "MAX_COMPONENTS", 7)
    features = learned([*sentences(60)])
    assert len(features.words) <= 20  # type: ignore[arg-type]
    assert len(features.characters) == 20  # type: ignore[arg-type]
    assert features.components.shape == (7, len(features.idf))
    assert features.nbytes == 8 * len(features.idf) + 4 * features.components.size


@pytest.mark.parametrize(
    "texts",
    [
        ["北京 的 冬天 很 冷", "上海的夏天很热", "北京的夏天很热", "广州的冬天不冷"],
        ["Москва зимой холодна", "летом в Москве жарко", "зимой в Казани холодно", "летом жарко"],
        ["सर्दी में दिल्ली ठंडी है", "गर्मी में दिल्ली गरम है", "सर्दी में पानी", "गर्मी में पानी"],
        ["café crème brûlée", "CAFÉ au lait", "crème fraîche", "lait de coco"],
    ],
    ids=["Chinese", "Russian", "Hindi", "French"],
)
def test_other_languages_are_understood(texts: list[str]) -> None:
    rows = encoded(learned([*texts]), [*texts])
    assert (np.linalg.norm(rows, axis=1) > 0.1).all()


def test_tags_entities_case_and_unicode_forms_do_not_matter() -> None:
    assert clean('<p class="x">Warm &amp; <b>dry</b></p><br/>').split() == ["warm", "&", "dry"]
    assert clean("cafe\u0301") == clean("CAFÉ")
    assert clean("a < b > c, 1<2") == "a < b > c, 1<2"


def test_only_the_beginning_of_a_very_long_text_counts() -> None:
    assert len(clean("a" * 10**6)) == text.MAX_CHARACTERS


def test_pairs_of_signs_are_words_where_a_language_has_no_spaces() -> None:
    assert clean("北京的冬天 is cold").split() == ["北京", "京的", "的冬", "冬天", "is", "cold"]
    assert clean("冷").split() == ["冷"]


def test_a_large_collection_is_hashed_and_counted_in_chunks(hashed: None) -> None:
    texts: list[str | None] = [*sentences(60), None, "never seen again"]
    features, by_the_way = TextFeatures.learn(column(texts))
    assert features is not None
    assert by_the_way is None  # some rows took no part in the decomposition
    assert (features.words, features.characters) == (2**9, 2**9)
    assert features.components.shape[1] == 2**10
    rows = encoded(features, texts)
    assert (np.linalg.norm(rows[:60], axis=1) > 0.1).all()
    assert not rows[60].any()
    for at in (0, 33):  # chunks do not matter
        assert rows[at].tobytes() == encoded(features, texts[at : at + 1]).tobytes()


def test_weights_of_a_large_collection_count_all_rows(hashed: None) -> None:
    texts = [*sentences(50), *["rareword"] * 3]
    features = learned([*texts])
    frequencies = 54 / np.exp(features.idf - 1) - 1
    counted = text._counts(text._vectorizers({"words": 2**9}), ["rareword"]).indices
    assert frequencies[counted[0]] >= 3 - 1e-9
    np.testing.assert_allclose(frequencies, np.round(frequencies), atol=1e-9)


def test_the_treatment_says_what_is_kept(hashed: None) -> None:
    assert "hashed words" in learned([*sentences(60)]).treatment()
