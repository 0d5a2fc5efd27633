"""Items as people have them: text, links between items, vectors. What do they bring by default,
with few marks?

Protocol: all items are known in advance, their text and their links too, and some of them are
marked; errors are those on items without a mark (transductive), but for "outcome", where items
after a point in time are not known before it.

* cora: one class of papers against the rest, half of the 20, 50 or 100 labels in the class; words
  and citations. Disagreement on the other papers, 20 draws. Label spreading over the links as
  scikit-learn does it, and with the best of five shares in hindsight.
* split: the public split of Cora, 140 labels and 1,000 test papers: one model per class, the
  largest score wins.
* topics: Python proposals, a person marks 10, 20 or 40, half of them of a topic; title, abstract,
  dates, categories, counts and citations. Disagreement on the other proposals, 20 draws. The peer
  knows title and abstract. `corank fit` without `--query` fits the AutoRegressor.
* random links: the same marks with links that were drawn at random, as many per item as there are.
* outcome: adopted or not, 50 or 200 outcomes known before a point in time, tested after it; what is
  learned of words comes from before, and only links to earlier proposals count. Area under the
  curve.
* shop: `make_shop`, 25 ratings of 600 items; also with words, links or embeddings that say nothing.
  Rank correlation with the true ratings of the other items, 20 seeds.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import scipy.sparse.linalg
from scipy import sparse
from scipy.stats import spearmanr
from sklearn.ensemble import RandomForestRegressor
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.preprocessing import normalize

from corank import AutoRanker, AutoRegressor, RankRLS, TableEncoder
from corank.datasets import make_shop
from corank.links import read_links
from corank.metrics import disagreement_error
from studies.data import CORA, PEPS, Floats, Integers, cora, proposals
from studies.questions.methods import Draw, DrawMethod, Results, by_draw, draw_parts, fit_count
from studies.study import Finding, Outcome, Part, Result, Settings, Study, Table, target
from studies.verdicts import mean_interval

N_DRAWS, FIRST_SEED = 20, 2000
LABELS, MARKS, OUTCOMES = (20, 50, 100), (10, 20, 40), (50, 200)
# links follow the topic, or do not
LINKED, FOLLOWED = ("Typing", "Packaging"), ("Governance", "Release")
TOPICS = (*LINKED, *FOLLOWED)
SHOPS = ("everything", "no words", "no links", "no embeddings")
REGRESSOR = "AutoRegressor, with links"
DEFAULT, ALONE = "the default, with links", "the default, without links"
LINEAR, LOGISTIC = "one linear model", "tf-idf and logistic regression"
SPREADING, HINDSIGHT = "label spreading", "label spreading, best share in hindsight"
RIDGE, BOOSTED, FOREST = "tf-idf and ridge", "LightGBM on numbers", "forest on everything"
SPREADING_SHARES = (0.2, 0.5, 0.8, 0.9, 0.99)  # the first is scikit-learn's
CUT_OFF = 0.6  # share of the decided proposals that lie before the point in time
PEERS: dict[str, dict[str, str]] = {
    "cora": {
        DEFAULT: "auto",
        ALONE: "alone",
        LINEAR: "linear",
        SPREADING: "spreading",
        HINDSIGHT: "hindsight",
    },
    "split": {DEFAULT: "auto"},
    "topics": {DEFAULT: "auto", REGRESSOR: "regressor", ALONE: "alone", LOGISTIC: "logistic"},
    "random links": {DEFAULT: "auto", ALONE: "alone"},
    "outcome": {DEFAULT: "auto", ALONE: "alone", LOGISTIC: "logistic", BOOSTED: "boosted"},
    "shop": {DEFAULT: "auto", ALONE: "alone", RIDGE: "ridge", BOOSTED: "boosted", FOREST: "forest"},
}


def parts(settings: Settings) -> list[Part]:
    """One part per draw and method."""
    names = {
        "cora": [("cora", size) for size in LABELS],
        "split": [("cora", 140)],
        "topics": [(topic, size) for topic in TOPICS for size in MARKS],
        "random links": [(topic, size) for topic in TOPICS for size in MARKS],
        "outcome": [("peps", size) for size in OUTCOMES],
        "shop": [(shop, 25) for shop in SHOPS],
    }
    found: list[Part] = []
    for kind, methods in PEERS.items():
        n_draws = 1 if settings.quick or kind == "split" else N_DRAWS
        chosen = names[kind][:1] if settings.quick else names[kind]
        draws: list[Draw] = [
            (kind, name, size, number) for name, size in chosen for number in range(n_draws)
        ]
        found += draw_parts(
            run, draws, [DrawMethod(title, method) for title, method in methods.items()]
        )
    return found


def run(settings: Settings, rng: np.random.Generator, draw: Draw, method: DrawMethod) -> Result:
    """The error of a method on a draw; for "split", "outcome" and "shop" what is larger the better
    it is.
    """
    kind, name, size, number = str(draw[0]), str(draw[1]), int(draw[2]), int(draw[3])
    if kind == "shop":
        return _shop(name, FIRST_SEED + number, method.learner)
    if kind == "split":
        return _split(settings.folder)
    if kind == "cora":
        return _cora(settings.folder, size, number, method.learner)
    if kind == "outcome":
        return _outcome(settings.folder, size, number, method.learner)
    return _topic(
        settings.folder, name, size, number, method.learner, at_random=kind == "random links"
    )


# ---- Cora


def _marked(truth: Floats, size: int, rng: np.random.Generator) -> Integers:
    """Rows to mark, half of them with a truth of 1."""
    inside, outside = np.flatnonzero(truth > 0), np.flatnonzero(truth == 0)
    first = rng.choice(inside, size // 2, replace=False)
    return np.concatenate([first, rng.choice(outside, size - size // 2, replace=False)])


def _known(truth: Floats, marked: Integers) -> Floats:
    scores = np.full(len(truth), np.nan)
    scores[marked] = truth[marked]
    return scores


def _citations(folder: Path) -> sparse.csr_array:
    links = sparse.csr_array(cora(folder).links)
    return sparse.csr_array(links - sparse.diags_array(links.diagonal()))


def _cora(folder: Path, size: int, number: int, learner: str) -> Result:
    data, links = cora(folder), _citations(folder)
    truth = (data.label == number % 7).astype(float)
    scores = _known(truth, _marked(truth, size, np.random.default_rng([number, size, 31])))
    test = np.isnan(scores)
    if learner in ("spreading", "hindsight"):
        shares = SPREADING_SHARES[:1] if learner == "spreading" else SPREADING_SHARES
        labels = np.column_stack([np.where(test, 0.0, truth), np.where(test, 0.0, 1 - truth)])
        votes = [_spread_labels(links, labels, share) for share in shares]
        return {"error": min(float(disagreement_error(truth[test], vote[test])) for vote in votes)}
    if learner == "linear":
        beside = sparse.csr_array(
            sparse.hstack([normalize(data.words), normalize(data.links)], format="csr")
        )
        predicted = RankRLS(kernel="linear").fit(beside[~test], scores[~test]).predict(beside)
    else:
        given = links if learner == "auto" else None
        model = AutoRanker(random_state=number).fit(data.words, scores, links=given)
        predicted = model.predict(data.words, links=given)
    return {"error": float(disagreement_error(truth[test], predicted[test]))}


def _spread_labels(links: sparse.csr_array, labels: Floats, share: float) -> Floats:
    """The share of the first of two labels (n, 2) that spread over links: (I - share S) f = labels,
    rows sum to 1.
    """
    degrees = np.maximum(np.asarray(links.sum(axis=1)).ravel(), 1.0)
    scale = sparse.diags_array(1 / np.sqrt(degrees))
    system = sparse.csc_array(sparse.eye_array(len(labels)) - share * (scale @ links @ scale))
    spread = scipy.sparse.linalg.spsolve(system, labels)
    total = spread.sum(axis=1)
    return np.where(total > 0, spread[:, 0] / np.where(total > 0, total, 1.0), 0.5)


def _split(folder: Path) -> Result:
    data, links = cora(folder), _citations(folder)
    labelled = np.arange(140)
    votes = []
    for label in range(7):
        scores = _known((data.label == label).astype(float), labelled)
        votes.append(
            AutoRanker(random_state=0)
            .fit(data.words, scores, links=links)
            .predict(data.words, links=links)
        )
    chosen = np.argmax(votes, axis=0)[data.test]
    return {"error": float(np.mean(chosen == data.label[data.test]))}


# ---- proposals


@lru_cache(maxsize=2)
def _encoded(folder: Path) -> tuple[TableEncoder, Floats]:
    encoder = TableEncoder()
    return encoder, encoder.fit_transform(proposals(folder).features)


@lru_cache(maxsize=2)
def _words(folder: Path) -> Any:
    return TfidfVectorizer().fit_transform(proposals(folder).texts)


def _topic(
    folder: Path, topic: str, size: int, number: int, learner: str, *, at_random: bool
) -> Result:
    data = proposals(folder)
    truth = (data.topic == topic).astype(float)
    rng = np.random.default_rng([number, size, 37])
    scores = _known(truth, _marked(truth, size, rng))
    test = np.isnan(scores)
    if learner == "logistic":
        words = _words(folder)
        predicted = (
            LogisticRegression(max_iter=2000)
            .fit(words[~test], scores[~test])
            .decision_function(words)
        )
    else:
        encoder, features = _encoded(folder)
        edges = (
            data.cites
            if not at_random
            else np.column_stack([data.cites[:, 0], rng.permutation(data.cites[:, 1])])
        )
        given = None if learner == "alone" else read_links(edges, len(truth))
        average = AutoRegressor if learner == "regressor" else AutoRanker
        model = average(random_state=number, encoder=encoder).fit(features, scores, links=given)
        predicted = model.predict(features, links=given)
    return {"error": float(disagreement_error(truth[test], predicted[test]))}


def _outcome(folder: Path, size: int, number: int, learner: str) -> Result:
    """The area under the curve on proposals after a point in time."""
    data = proposals(folder)
    order = np.argsort(data.created, kind="stable")
    decided = order[~np.isnan(data.adopted[order])]
    cut = data.created[decided[int(CUT_OFF * len(decided))]]
    before, after = (
        np.flatnonzero(data.created < cut),
        np.flatnonzero((data.created >= cut) & ~np.isnan(data.adopted)),
    )
    rng = np.random.default_rng([number, size, 41])
    marked = rng.choice(
        np.flatnonzero((data.created < cut) & ~np.isnan(data.adopted)), size, replace=False
    )
    if learner == "logistic":
        words = TfidfVectorizer().fit([data.texts[row] for row in before]).transform(data.texts)
        predicted = (
            LogisticRegression(max_iter=2000)
            .fit(words[marked], data.adopted[marked])
            .decision_function(words)
        )
        return {"error": _area(data.adopted[after], predicted[after])}
    encoder = TableEncoder().fit(data.features.take(before))
    features = encoder.transform(data.features)
    if learner == "boosted":
        from lightgbm import LGBMClassifier  # not everywhere

        numbers = features[:, _table_columns(encoder)]
        model = LGBMClassifier(
            n_estimators=100,
            learning_rate=0.05,
            min_child_samples=5,
            verbose=-1,
            n_jobs=1,
            random_state=number,
        )
        predicted = model.fit(numbers[marked], data.adopted[marked]).predict_proba(numbers)[:, 1]
        return {"error": _area(data.adopted[after], predicted[after])}
    scores = _known(data.adopted, marked)
    earlier = data.created[data.cites[:, 1]] < data.created[data.cites[:, 0]]
    links = read_links(data.cites[earlier], len(scores), directed=True)
    first, second = (links.take(before), links) if learner == "auto" else (None, None)
    ranker = AutoRanker(random_state=number, encoder=encoder).fit(
        features[before], scores[before], links=first
    )
    return {"error": _area(data.adopted[after], ranker.predict(features, links=second)[after])}


def _area(truth: Floats, predicted: Floats) -> float:
    return 1 - float(disagreement_error(truth, predicted))


def _table_columns(encoder: TableEncoder) -> Integers:
    return np.concatenate([group.columns for group in encoder.groups_ if group.kind != "text"])


# ---- a shop


def _shop(name: str, seed: int, learner: str) -> Result:
    """The rank correlation with the true ratings of items that nobody rated."""
    silent = {
        "words": name != "no words",
        "links": name != "no links",
        "embeddings": name != "no embeddings",
    }
    shop = make_shop(random_state=seed, **silent)
    rated = ~np.isnan(shop.y)
    if learner == "ridge":
        words = TfidfVectorizer().fit_transform(shop.X["description"].to_pylist())
        predicted = (
            RidgeCV(np.logspace(-3, 3, 13))
            .fit(words[rated].toarray(), shop.y[rated])
            .predict(words.toarray())
        )
    elif learner in ("boosted", "forest"):
        encoder = TableEncoder().fit(shop.X)
        features = encoder.transform(shop.X)
        if learner == "boosted":
            from lightgbm import LGBMRegressor

            features = features[:, _table_columns(encoder)]
            model: Any = LGBMRegressor(
                n_estimators=200,
                learning_rate=0.05,
                min_child_samples=3,
                verbose=-1,
                n_jobs=1,
                random_state=seed,
            )
        else:
            model = RandomForestRegressor(300, random_state=seed)
        predicted = model.fit(features[rated], shop.y[rated]).predict(features)
    else:
        given = (
            read_links(shop.links, len(shop.y), ids=pa.array(shop.ids))
            if learner == "auto"
            else None
        )
        average = AutoRegressor(random_state=seed).fit(shop.X, shop.y, links=given)
        predicted = average.predict(shop.X, links=given)
    return {
        "error": float(spearmanr(shop.ratings[~rated], np.asarray(predicted)[~rated]).statistic)
    }


# ---- what came out

Means = dict[tuple[str, str, int], dict[str, Floats]]  # setting → method → values of the draws


def conclude(settings: Settings, results: Results) -> Outcome:
    """Mean errors, and what was to be reached."""
    values: Means = {}
    for (kind, name, size, _), by_method in by_draw(results).items():
        setting = values.setdefault((str(kind), str(name), int(size)), {})
        for method, result in by_method.items():
            setting[method] = np.append(setting.get(method, np.empty(0)), result["error"])
    titles = {
        "cora": "Cora, disagreement",
        "split": "Cora, public split, share of papers put in the right class",
        "topics": "Proposals by topic, disagreement",
        "random links": "Proposals by topic, links at random, disagreement",
        "outcome": "Proposals by outcome, area under the curve",
        "shop": "A shop, rank correlation",
    }
    tables = [
        _table(title, {s: v for s, v in values.items() if s[0] == kind})
        for kind, title in titles.items()
    ]
    findings = [*_cora_findings(values), *_topic_findings(values), *_shop_findings(values)]
    return Outcome(tables, findings, n_fits=fit_count(results))


def _table(title: str, values: Means) -> Table:
    methods = list(next(iter(values.values())))
    rows = []
    for (_, name, size), by_method in values.items():
        cells = []
        for method in methods:
            low, high = (
                mean_interval(by_method[method]) if len(by_method[method]) > 1 else (np.nan, np.nan)
            )
            interval = f" ({low:.4f} to {high:.4f})" if len(by_method[method]) > 1 else ""
            cells.append(f"{by_method[method].mean():.4f}{interval}")
        rows.append((f"{name}, {size}", *cells))
    return Table(f"{title}: mean and 95 % interval", ("set, marks", *methods), rows)


def _ratio(by_method: Mapping[str, Floats], *peers: str) -> float:
    return float(by_method[DEFAULT].mean() / min(by_method[peer].mean() for peer in peers))


def _cora_findings(values: Means) -> list[Finding]:
    found = []
    for (kind, _, size), by_method in values.items():
        if kind == "split":
            share = float(by_method[DEFAULT].mean())
            found.append(
                target(
                    "public split of Cora: at least 82.0 % right", f"{share:.1%}.", share >= 0.82
                )
            )
        if kind == "cora":
            limit = dict(zip(LABELS, (0.45, 0.50, 0.55), strict=True))[size]
            ratio = _ratio(by_method, LINEAR, SPREADING)
            claim = f"Cora, {size} labels: at most {limit} x the better of {LINEAR} and {SPREADING}"
            found.append(target(claim, f"{ratio:.3f}.", ratio <= limit))
    return found


def _over_sizes(values: Means, kind: str, name: str, method: str) -> float:
    """The mean over all numbers of marks."""
    return float(
        np.mean([v[method].mean() for (k, n, _), v in values.items() if (k, n) == (kind, name)])
    )


def _topic_findings(values: Means) -> list[Finding]:
    found = []
    for topic in dict.fromkeys(name for kind, name, _ in values if kind == "topics"):
        limit = 0.5 if topic in LINKED else 1.15
        ratio = _over_sizes(values, "topics", topic, DEFAULT) / _over_sizes(
            values, "topics", topic, LOGISTIC
        )
        single = [
            f"{size} marks {_ratio(v, LOGISTIC):.2f}"
            for (k, n, size), v in values.items()
            if (k, n) == ("topics", topic)
        ]
        claim = f"proposals on {topic}: at most {limit} x {LOGISTIC}"
        found.append(target(claim, f"{ratio:.3f} ({', '.join(single)}).", ratio <= limit))
    ratios = [
        _ratio(by_method, ALONE)
        for (kind, *_), by_method in values.items()
        if kind == "random links"
    ]
    mean = float(np.exp(np.mean(np.log(ratios))))
    claim = "links at random: at most 1.02 x the error without links, geometric mean"
    found.append(target(claim, f"{mean:.3f} (greatest {max(ratios):.3f}).", mean <= 1.02))
    return found


def _shop_findings(values: Means) -> list[Finding]:
    found = []
    for (kind, name, _), by_method in values.items():
        if kind == "shop":
            best = max((RIDGE, BOOSTED, FOREST), key=lambda method: by_method[method].mean())
            ratio = float(by_method[DEFAULT].mean() / by_method[best].mean())
            least = 1.0 if name == "everything" else 0.98
            claim = f"a shop, {name}: at least {least} x the rank correlation of the best of three"
            found.append(target(claim, f"{ratio:.3f} ({best} is the best).", ratio >= least))
    return found


STUDY = Study(
    name="items",
    title="Items as people have them: text, links and vectors",
    about=(
        "AutoRanker() and AutoRegressor() on words, citations, proposals and a made-up shop, with"
        " few marks: what text and links bring, and whether the default finds out where links"
        " mislead."
    ),
    parts=parts,
    conclude=conclude,
    files=(*CORA, *PEPS),
    fixed_draws=True,
)
STUDIES = (STUDY,)
