"""Free text as numbers: tf-idf of words and of character n-grams, then a truncated singular value
decomposition of both.

A small collection of texts keeps a vocabulary. A large one hashes its terms, is counted chunk by
chunk and decomposed on a sample of its rows, so that memory stays bounded. Which columns of a table
are text is the subject of `kinds`.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from html import unescape
from typing import Any, Self, TypeAlias
from unicodedata import normalize

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from scipy import sparse

from corank.core.arrays import FloatArray, Index

MAX_TERMS = 10_000  # of words, and of character n-grams: the most frequent
# numbers that the words, and the character n-grams, of a large collection share
HASHED_TERMS = 2**14
# few do better with few scores: 50 misorder 0.7 % of the pairs of proposals by topic, 150 0.96 %
MAX_COMPONENTS = 50
# of words in the inner product of two texts; the other share is that of character n-grams
WORD_SHARE = 0.5
MAX_VOCABULARY_BYTES = 5_000_000  # of a collection that keeps a vocabulary
MAX_DECOMPOSED_ROWS = 100_000
MAX_DECOMPOSED_BYTES = 20_000_000
MAX_CHARACTERS = 50_000  # of a text that are read: as many as fit easily into memory as n-grams
CHUNK_BYTES = 2_000_000
WEIGHTED_ROWS = 5_000  # at a time
LEAST_SINGULAR_VALUE = 1e-6  # relative to the largest; a component below it is rounding
ANALYZERS: Mapping[str, dict[str, Any]] = {
    "words": {"analyzer": "word", "ngram_range": (1, 1)},
    "characters": {"analyzer": "char_wb", "ngram_range": (3, 5)},
}
# Thai, kana, Chinese characters
_WITHOUT_SPACES = re.compile("[\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff]+")
_TAG = re.compile(r"</?[a-zA-Z!][^<>]*>")

Terms: TypeAlias = tuple[str, ...] | int  # terms by name, or the number of hashed ones


def clean(text: str) -> str:
    """The beginning of a text in lower case and one Unicode form, without HTML tags and entities.

    Where a language has no spaces, every two neighbouring signs become a word.
    """
    text = text[:MAX_CHARACTERS]
    if "<" in text:
        text = _TAG.sub(" ", text)
    if "&" in text:
        text = unescape(text)
    if not text.isascii():
        text = _WITHOUT_SPACES.sub(_pairs, normalize("NFKC", text))
    return text.lower()


def _pairs(match: re.Match[str]) -> str:
    signs = match[0]
    words = [signs[at : at + 2] for at in range(max(len(signs) - 1, 1))]
    return f" {' '.join(words)} "


@dataclass(frozen=True, eq=False)
class TextFeatures:
    """What was learned about a column of text.

    words, characters : the terms, or their number where they are hashed
    idf : (n_terms,) weights of the terms, words first
    components : (n_components, n_terms) float32, scaled so that texts have the mean squared length
        1
    """

    words: Terms
    characters: Terms
    idf: FloatArray
    components: NDArray[np.float32]

    @classmethod
    def learn(cls, texts: pa.ChunkedArray) -> tuple[Self | None, FloatArray | None]:
        """Terms, weights and components of all texts, and the texts encoded where all of them were
        decomposed.

        None stands for features of texts without a single term. Texts are read in alphabetical
        order, so that the order of the rows does not matter.
        """
        order = pc.sort_indices(texts).to_numpy()
        texts = texts.take(order)
        words: Terms
        characters: Terms
        sizes = _sizes(texts)
        if sizes.sum() <= MAX_VOCABULARY_BYTES:
            words, characters, counts = _vocabularies(texts)
            n_words = len(words)
            frequencies = np.bincount(counts.indices, minlength=counts.shape[1])
            complete = True
        else:
            words = characters = n_words = HASHED_TERMS
            frequencies, counts = _hashed_counts(texts, sizes)
            complete = counts.shape[0] == len(texts)
        if counts.nnz == 0:
            return None, None
        idf = np.log((1 + len(texts)) / (1 + frequencies)) + 1
        weighted = _weighted(counts, idf, n_words)
        components = _components(weighted)
        if len(components) == 0:
            return None, None
        features = cls(words, characters, idf, components)
        if not complete:
            return features, None
        encoded = np.empty((len(texts), len(components)))
        encoded[order] = features._projected(weighted)
        return features, encoded

    @property
    def nbytes(self) -> int:
        """Bytes of the weights and components in a file; the terms by name add about as many as the
        weights.
        """
        return int(self.idf.nbytes + self.components.nbytes)

    def encode(self, texts: pa.ChunkedArray, out: FloatArray) -> None:
        """Fill `out` (n_texts, n_components); rows of texts without a term that was learned are 0."""
        n_words = self.words if isinstance(self.words, int) else len(self.words)
        vectorizers = _vectorizers({"words": self.words, "characters": self.characters})
        sizes = _sizes(texts)
        for rows, chunk in _chunks(texts, sizes):
            weighted = _weighted(_counts(vectorizers, chunk), self.idf, n_words)
            out[rows] = self._projected(weighted)

    def _projected(self, weighted: Any) -> FloatArray:
        return np.asarray(weighted @ self.components.T.astype(np.float64))

    def treatment(self) -> str:
        """How a text becomes features, in plain words."""
        n_components, n_terms = self.components.shape
        if isinstance(self.words, int) or isinstance(self.characters, int):
            terms = f"{n_terms:,} hashed words and character n-grams"
        else:
            terms = f"{len(self.words):,} words and {len(self.characters):,} character n-grams"
        return f"{n_components} components of the tf-idf of {terms}"


# ---- terms and their counts


def _vectorizers(terms: Mapping[str, Terms]) -> list[Any]:
    """What counts the terms of each kind; kinds without a term are left out."""
    from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer

    vectorizers: list[Any] = []
    for name, vocabulary in terms.items():
        options = {**ANALYZERS[name], "preprocessor": clean, "dtype": np.float64}
        if isinstance(vocabulary, int):
            vectorizers.append(
                HashingVectorizer(n_features=vocabulary, norm=None, alternate_sign=False, **options)
            )
        elif vocabulary:
            positions = {term: position for position, term in enumerate(vocabulary)}
            vectorizers.append(CountVectorizer(vocabulary=positions, **options))
    return vectorizers


def _counts(vectorizers: list[Any], texts: list[str]) -> Any:
    """How often each term occurs in each text: CSR (n_texts, n_terms)."""
    blocks = [vectorizer.transform(texts) for vectorizer in vectorizers]
    return sparse.hstack(blocks, format="csr")


def _vocabularies(texts: pa.ChunkedArray) -> tuple[tuple[str, ...], tuple[str, ...], Any]:
    """The most frequent words and character n-grams, those of a single text only where no other is
    there; and counts.
    """
    from sklearn.feature_extraction.text import CountVectorizer

    cells = [text or "" for text in texts.to_pylist()]
    vocabularies, blocks = [], []
    for options in ANALYZERS.values():
        vectorizer = CountVectorizer(preprocessor=clean, dtype=np.float64, **options)
        try:
            counts = vectorizer.fit_transform(cells)
        except ValueError:  # there is no term at all
            counts = sparse.csr_matrix((len(cells), 0))
            names = np.empty(0, dtype=object)
        else:
            names = vectorizer.get_feature_names_out()
        frequencies = np.bincount(counts.indices, minlength=counts.shape[1])
        if (frequencies > 1).any():
            frequencies[frequencies == 1] = 0
        # terms are sorted: ties go by their names
        most_frequent = np.argsort(-frequencies, kind="stable")[:MAX_TERMS]
        chosen = np.sort(most_frequent[frequencies[most_frequent] > 0])
        vocabularies.append(tuple(names[chosen].tolist()))
        blocks.append(counts[:, chosen])
    words, characters = vocabularies
    return words, characters, sparse.hstack(blocks, format="csr")


def _hashed_counts(texts: pa.ChunkedArray, sizes: Index) -> tuple[Index, Any]:
    """In how many texts each hashed term occurs, and the counts of the texts that are decomposed."""
    vectorizers = _vectorizers(dict.fromkeys(ANALYZERS, HASHED_TERMS))
    mean_size = max(float(sizes.mean()), 1.0)
    most_texts = int(MAX_DECOMPOSED_BYTES / mean_size) + 1
    n_decomposed = min(len(texts), MAX_DECOMPOSED_ROWS, most_texts)
    decomposed = np.zeros(len(texts), dtype=bool)
    decomposed[np.random.default_rng(0).choice(len(texts), n_decomposed, replace=False)] = True
    n_terms = len(ANALYZERS) * HASHED_TERMS
    frequencies = np.zeros(n_terms, dtype=np.int64)
    blocks = []
    for rows, chunk in _chunks(texts, sizes):
        counts = _counts(vectorizers, chunk)
        frequencies += np.bincount(counts.indices, minlength=n_terms)
        blocks.append(counts[decomposed[rows]])
    return frequencies, sparse.vstack(blocks, format="csr")


def _weighted(counts: Any, idf: FloatArray, n_words: int) -> Any:
    """Sublinear tf-idf (n_texts, n_terms) in place of the counts; words and character n-grams have
    rows of fixed length.
    """
    counts.sort_indices()  # sums are taken in one order, however the terms were counted
    is_word = 1.0 * (np.arange(len(idf)) < n_words)
    by_kind = np.stack([is_word, 1 - is_word], axis=1)
    shares = np.sqrt([WORD_SHARE, 1 - WORD_SHARE])
    for start in range(0, counts.shape[0], WEIGHTED_ROWS):
        indptr = counts.indptr[start : start + WEIGHTED_ROWS + 1]
        n_rows = len(indptr) - 1
        entries = slice(indptr[0], indptr[-1])
        indices = counts.indices[entries]
        data = counts.data[entries]
        np.log(data, out=data)
        data += 1
        data *= idf[indices]
        parts = (data**2, indices, indptr - indptr[0])
        squares = sparse.csr_matrix(parts, shape=(n_rows, len(idf)))
        lengths = np.sqrt(squares @ by_kind)
        lengths[lengths == 0] = 1.0
        factors = shares / lengths
        rows = np.repeat(np.arange(n_rows), np.diff(indptr))
        data *= factors[rows, (indices >= n_words).astype(np.intp)]
    return counts


def _components(weighted: Any) -> NDArray[np.float32]:
    """Right singular vectors (n_components, n_terms) whose singular values are more than rounding.

    They are divided by one number, after which the texts with a term have the mean squared length
    1. Texts are not scaled one by one: those of which the components say little are rightly near 0.
    """
    from sklearn.decomposition import TruncatedSVD

    n_texts, n_terms = weighted.shape
    n_components = min(MAX_COMPONENTS, n_texts - 1, n_terms)
    if n_components < 1:
        return np.empty((0, n_terms), dtype=np.float32)
    with np.errstate(divide="ignore", invalid="ignore"):  # shares of a variance that may be 0
        decomposition = TruncatedSVD(n_components, random_state=0).fit(weighted)
    values = decomposition.singular_values_
    kept = values > LEAST_SINGULAR_VALUE * values.max()
    n_with_terms = np.count_nonzero(np.diff(weighted.indptr))
    length = np.sqrt(np.sum(values[kept] ** 2) / n_with_terms)
    return np.asarray(decomposition.components_[kept] / length, dtype=np.float32)


# ---- texts of a column


def _sizes(texts: pa.ChunkedArray) -> Index:
    """Bytes of every text: (n_texts,), 0 where it is missing."""
    lengths = pc.fill_null(pc.binary_length(texts), 0)
    return np.asarray(lengths.to_numpy(), dtype=np.int64)


def _chunks(texts: pa.ChunkedArray, sizes: Index) -> Iterator[tuple[slice, list[str]]]:
    """Texts in pieces of about CHUNK_BYTES, each with the rows where they stand."""
    if len(texts) == 0:
        return
    numbers = np.cumsum(sizes + 20) // CHUNK_BYTES
    starts = np.flatnonzero(np.diff(numbers, prepend=-1))
    stops = [*starts[1:], len(texts)]
    for start, stop in zip(starts, stops, strict=True):
        cells = texts.slice(start, stop - start).to_pylist()
        yield slice(start, stop), [text or "" for text in cells]
