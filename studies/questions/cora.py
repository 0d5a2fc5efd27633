"""Cora: words and citations as two natural views, one class ranked above the rest.

Protocol: a paper's words (0/1) and its row of the adjacency matrix (with itself). "cora" takes both
as they are with the library's own kernel (rbf, gamma="scale"); "cora-cosine" scales rows to unit
length and takes linear kernels, so that supervised on both side by side is the sum of the two
cosines. A draw is a random order of the papers. Of its papers 20, 50 and 100 are labelled (1 for
the class, 0 for the others): the first ones of the class and as many of the rest; in "cora-random"
simply the first ones, of which a seventh are of the class on average (drawn again until all seven
classes are among the first 20). All other papers are unlabelled, and the disagreement is taken on
those. Two classes per draw, in turn; standard errors are over the ten draws. Everything is tuned on
the labelled papers by the library. Learners with views span their functions with all papers,
labelled or not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path

import numpy as np
from scipy import sparse
from sklearn.preprocessing import normalize

from corank import View
from corank.metrics import disagreement_error
from studies.data import CORA, Floats, Integers, cora
from studies.questions.methods import (
    RANKER,
    SUPERVISED,
    TUNED,
    Draw,
    DrawMethod,
    Results,
    by_draw,
    choice_counts,
    choice_of,
    choice_table,
    draw_parts,
    fit_count,
    make,
    method_titles,
    rankers,
)
from studies.study import Outcome, Part, Result, Settings, Study, Table, target
from studies.verdicts import standard_error

SIZES, N_DRAWS, N_CLASSES = (20, 50, 100), 10, 7
WORDS, LINKS = "words alone", "links alone"
LIMIT = 0.92


def methods(kernel: str, basis: int | str) -> list[DrawMethod]:
    """Supervised, each view on its own, and those with views."""
    both, *co_learners, average = rankers(kernel=kernel)
    alone = [DrawMethod(title, "RankRLS", {"kernel": kernel}) for title in (WORDS, LINKS)]
    return [
        both,
        *alone,
        *(replace(method, settings={**method.settings, "basis": basis}) for method in co_learners),
        average,
    ]


def parts(settings: Settings, *, kernel: str, half: bool) -> list[Part]:
    """One part per number of labels, draw, class and method."""
    sizes, n_draws, basis = (SIZES[:1], 1, 50) if settings.quick else (SIZES, N_DRAWS, "all")
    draws = [
        (size, draw, (draw + step) % N_CLASSES)
        for size in sizes
        for draw in range(n_draws)
        for step in (0, 3)
    ]
    return draw_parts(run, draws, methods(kernel, basis), kernel=kernel, half=half)


@lru_cache(maxsize=2)
def _order(folder: Path, draw: int) -> Integers:
    """The papers in the order in which they are labelled."""
    label, rng = cora(folder).label, np.random.default_rng([draw, 4])
    while True:
        order = rng.permutation(len(label))
        if len(np.unique(label[order[: SIZES[0]]])) == N_CLASSES:
            return order


@lru_cache(maxsize=1)
def _features(folder: Path, method: str, kernel: str) -> sparse.csr_array:
    data = cora(folder)
    words, links = data.words, data.links
    if kernel == "linear":
        words, links = (sparse.csr_array(normalize(view)) for view in (words, links))
    if method == WORDS:
        return words
    return (
        links if method == LINKS else sparse.csr_array(sparse.hstack([words, links], format="csr"))
    )


def labelled(order: Integers, truth: Floats, size: int, half: bool) -> Integers:
    """The papers that are labelled: the first ones, or as many of the class as of the rest."""
    if not half:
        return order[:size]
    in_class = truth[order] > 0
    return np.concatenate([order[in_class][: size // 2], order[~in_class][: size - size // 2]])


def run(
    settings: Settings,
    rng: np.random.Generator,
    draw: Draw,
    method: DrawMethod,
    kernel: str,
    half: bool,
) -> Result:
    """The disagreement of a method on the unlabelled papers."""
    size, number, label = (int(value) for value in draw)
    data, order = cora(settings.folder), _order(settings.folder, number)
    truth = (data.label == label).astype(float)
    chosen = labelled(order, truth, size, half)
    y = np.full(len(truth), np.nan)
    y[chosen] = truth[chosen]
    X, n_words = _features(settings.folder, method.title, kernel), data.words.shape[1]
    views = [View(slice(0, n_words), kernel=kernel), View(slice(n_words, None), kernel=kernel)]
    model = make(method, views, number).fit(X, y)
    unlabelled = np.flatnonzero(np.isnan(y))
    return {
        "error": disagreement_error(truth[unlabelled], model.predict(X[unlabelled])),
        **choice_of(model),
    }


def conclude(settings: Settings, results: Results) -> Outcome:
    """Errors by number of labels, and beside those of supervised learning."""
    draws, titles = by_draw(results), method_titles(results)
    sizes = sorted({int(draw[0]) for draw in draws})
    errors = {size: {method: _errors(draws, size, method) for method in titles} for size in sizes}
    rows = [
        (
            method,
            *(
                f"{errors[s][method].mean():.4f} ± {standard_error(errors[s][method]):.4f}"
                for s in sizes
            ),
        )
        for method in titles
    ]
    head = ("method", *(f"{size} labels" for size in sizes))
    findings, counts = [], []
    for size in sizes:
        ratio = float(errors[size][TUNED].mean() / errors[size][SUPERVISED].mean())
        claim = f"{TUNED} ÷ supervised at {size} labels at most {LIMIT}"
        findings.append(target(claim, f"{ratio:.3f}.", ratio <= LIMIT))
        choices = choice_counts(
            by_method[RANKER] for draw, by_method in draws.items() if draw[0] == size
        )
        counts.append((f"{size} labels", choices))
    n = len(errors[sizes[0]][SUPERVISED])
    tables = [
        Table(
            f"Disagreement on unlabelled papers, mean of the classes ± s.e. over {n} draws",
            head,
            rows,
        ),
        _ratio_table(errors, titles),
        choice_table(RANKER, counts),
    ]
    return Outcome(tables, findings, n_fits=fit_count(results))


def _errors(draws: Mapping[Draw, Mapping[str, Result]], size: int, method: str) -> Floats:
    """The mean of the classes, one value per draw."""
    errors: dict[int | str, list[float]] = {}
    for (labels, number, _), by_method in draws.items():
        if labels == size:
            errors.setdefault(number, []).append(by_method[method]["error"])
    return np.asarray([np.mean(values) for values in errors.values()])


def _ratio_table(errors: Mapping[int, Mapping[str, Floats]], titles: Sequence[str]) -> Table:
    rows = []
    for method in titles:
        if method != SUPERVISED:
            cells = []
            for by_method in errors.values():
                values, base = by_method[method], by_method[SUPERVISED]
                better = int((values < base).sum())
                cells.append(
                    f"{values.mean() / base.mean():.3f} (better in {better} of {len(values)})"
                )
            rows.append((method, *cells))
    return Table(
        "Divided by supervised, ratio of the means",
        ("method", *(f"{size} labels" for size in errors)),
        rows,
    )


def study(name: str, title: str, kernel: str, about_kernel: str, *, half: bool = True) -> Study:
    """Cora with one kind of kernel and of labels."""
    labels = "half of them of the class" if half else "drawn at random"
    return Study(
        name=name,
        title=title,
        about=(
            "One class ranked above the rest, two classes per draw; 20, 50 and 100 labelled papers"
            f" of 2,708, {labels}, {N_DRAWS} draws; {about_kernel}; everything tuned on the"
            " labelled papers."
        ),
        parts=partial(parts, kernel=kernel, half=half),
        conclude=conclude,
        files=CORA,
        fixed_draws=True,
        with_results=True,
    )


DEFAULT = "the library's own kernels on the data as they are"
STUDIES = (
    study("cora", "Cora: words and links as views", "rbf", DEFAULT),
    study("cora-random", "Cora with labels drawn at random", "rbf", DEFAULT, half=False),
    study("cora-cosine", "Cora with cosine kernels", "linear", "cosine kernels"),
)
