"""Cora: words and citations as two natural views, one class ranked above the rest.

Protocol: a paper's words (0/1) and its row of the adjacency matrix (with itself). "cora" takes both as they are with
the library's own kernel (rbf, gamma="scale"); "cora-cosine" scales rows to unit length and takes linear kernels, so
that supervised on both side by side is the sum of the two cosines. A draw is a random order of the papers. Of its
papers 20, 50 and 100 are labelled (1 for the class, 0 for the others): the first ones of the class and as many of the
rest; in "cora-random" simply the first ones, of which a seventh are of the class on average (drawn again until all
seven classes are among the first 20). All other papers are unlabelled, and the disagreement is taken on those. Two
classes a draw, in turn; standard errors are over the ten draws. Everything is tuned on the labelled papers by the
library. Learners with views span their functions with all papers, labelled or not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache, partial
from pathlib import Path

import numpy as np
from scipy import sparse
from sklearn.preprocessing import normalize

from corank import View
from corank.experiments.uncertainty import standard_error
from corank.metrics import disagreement_error
from studies.questions.data import CORA, Floats, Integers, cora
from studies.questions.methods import RANKER, SUPERVISED, TUNED, choice_table, choices, chosen, make, rankers
from studies.questions.study import (
    Job,
    Method,
    Options,
    Record,
    Result,
    Study,
    Summary,
    Table,
    Target,
    all_jobs,
    by_draw,
    method_titles,
)

SIZES, N_DRAWS, N_CLASSES = (20, 50, 100), 10, 7
WORDS, LINKS = "words alone", "links alone"
LIMIT = 0.92


def methods(kernel: str, basis: int | str) -> list[Method]:
    """Supervised, each view on its own, and those with views."""
    both, *with_views = rankers(kernel=kernel)
    alone = [Method(title, "RankRLS", {"kernel": kernel}) for title in (WORDS, LINKS)]
    return [both, *alone, *(Method(m.title, m.learner, {**m.settings, "basis": basis}) for m in with_views)]


def jobs(kernel: str, options: Options) -> list[Job]:
    sizes, n_draws, basis = (SIZES[:1], 1, 50) if options.quick else (SIZES, N_DRAWS, "all")
    draws = [(size, d, (d + step) % N_CLASSES) for size in sizes for d in range(n_draws) for step in (0, 3)]
    return all_jobs(draws, methods(kernel, basis))


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
        words, links = (sparse.csr_array(normalize(part)) for part in (words, links))
    if method == WORDS:
        return words
    return links if method == LINKS else sparse.csr_array(sparse.hstack([words, links], format="csr"))


def labelled(order: Integers, truth: Floats, size: int, half: bool) -> Integers:
    """The papers that are labelled: the first ones, or as many of the class as of the rest."""
    if not half:
        return order[:size]
    own = truth[order] > 0
    return np.concatenate([order[own][: size // 2], order[~own][: size - size // 2]])


def run(kernel: str, half: bool, options: Options, job: Job) -> Result:
    size, draw, kind = (int(part) for part in job.draw)
    data, order = cora(options.folder), _order(options.folder, draw)
    truth = (data.label == kind).astype(float)
    known = labelled(order, truth, size, half)
    y = np.full(len(truth), np.nan)
    y[known] = truth[known]
    X, n_words = _features(options.folder, job.method.title, kernel), data.words.shape[1]
    views = [View(slice(0, n_words), kernel=kernel), View(slice(n_words, None), kernel=kernel)]
    model = make(job.method, views, draw).fit(X, y)
    unlabelled = np.flatnonzero(np.isnan(y))
    return {"error": disagreement_error(truth[unlabelled], model.predict(X[unlabelled])), **chosen(model)}


def summarise(records: Sequence[Record]) -> Summary:
    draws, titles = by_draw(records), method_titles(records)
    sizes = sorted({int(draw[0]) for draw in draws})
    errors = {size: {method: _errors(draws, size, method) for method in titles} for size in sizes}
    rows = [
        (method, *(f"{errors[s][method].mean():.4f} ± {standard_error(errors[s][method]):.4f}" for s in sizes))
        for method in titles
    ]
    head = ("method", *(f"{size} labels" for size in sizes))
    targets = []
    for size in sizes:
        ratio = float(errors[size][TUNED].mean() / errors[size][SUPERVISED].mean())
        text = f"{TUNED} ÷ supervised at {size} labels at most {LIMIT}"
        targets.append(Target(text, ratio, f"{ratio:.3f}", ratio <= LIMIT))
    picks = [
        (f"{size} labels", choices(own[RANKER] for draw, own in draws.items() if draw[0] == size)) for size in sizes
    ]
    n = len(errors[sizes[0]][SUPERVISED])
    return Summary(
        [
            Table(f"Disagreement on unlabelled papers, mean of the classes ± s.e. over {n} draws", head, rows),
            _ratio_table(errors, titles),
            choice_table(RANKER, picks),
        ],
        targets,
    )


def _errors(draws: Mapping[tuple[int | str, ...], Mapping[str, Result]], size: int, method: str) -> Floats:
    """The mean of the classes, one a draw."""
    own: dict[int | str, list[float]] = {}
    for (labels, draw, _), results in draws.items():
        if labels == size:
            own.setdefault(draw, []).append(results[method]["error"])
    return np.asarray([np.mean(values) for values in own.values()])


def _ratio_table(errors: Mapping[int, Mapping[str, Floats]], titles: Sequence[str]) -> Table:
    rows = []
    for method in titles:
        if method != SUPERVISED:
            cells = []
            for own in errors.values():
                better = int((own[method] < own[SUPERVISED]).sum())
                ratio = own[method].mean() / own[SUPERVISED].mean()
                cells.append(f"{ratio:.3f} (better in {better} of {len(own[method])})")
            rows.append((method, *cells))
    return Table("Divided by supervised, ratio of the means", ("method", *(f"{size} labels" for size in errors)), rows)


def study(name: str, title: str, kernel: str, words: str, *, half: bool = True) -> Study:
    """Cora with one kind of kernel and of labels."""
    labels = "half of them of the class" if half else "drawn at random"
    return Study(
        name=name,
        title=title,
        about=(
            f"One class ranked above the rest, two classes a draw; 20, 50 and 100 labelled papers of 2,708, {labels}, "
            f"{N_DRAWS} draws; {words}; everything tuned on the labelled papers."
        ),
        draw_names=("labels", "draw", "class"),
        protocol=3,
        jobs=partial(jobs, kernel),
        run=partial(run, kernel, half),
        summarise=summarise,
        needs=CORA,
    )


OWN = "the library's own kernels on the data as they are"
STUDIES = (
    study("cora", "Cora: words and links as views", "rbf", OWN),
    study("cora-random", "Cora with labels drawn at random", "rbf", OWN, half=False),
    study("cora-cosine", "Cora with cosine kernels", "linear", "cosine kernels"),
)
