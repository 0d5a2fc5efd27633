"""Does it pay to know who gave a rating, and which item came back? AutoRanker with persons and items
beside itself without them and beside tuned peers.

Protocol
--------
* settings: MovieLens, 5, 10, 20 and 40 ratings of 200, 200, 120 and 60 people; Jester, 10 and 30 of
  120 people, where jokes have no columns; sushi, 5 of 200 people. People and their ratings are
  drawn at random; tested are the other ratings of the same people, at most 50 of each. Error: the
  share of misordered pairs within a person, the mean over people.
* peers choose among equally many settings by splits of the ratings of every person
  (`persons_peers`): six up to ten ratings, else three. The peer of a setting is the method of the lowest mean error over draws.
* a new person: 30 others, unknown in `fit`, give 2, 5, 10 and 20 answers, taken up by `update` one
  person at a time; tested are their other ratings, beside the consensus of the model before that.
* time is that of the processor, but for parts that run alone.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from copy import deepcopy
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeAlias
from zlib import crc32

import numpy as np
import pyarrow as pa
from benchmarks.measure import peak_memory_mb

from corank import AutoRanker
from corank.core.messages import count
from studies.data import JESTER, MOVIELENS, SUSHI, Floats, Integers, Ratings, movielens, sushi
from studies.data import jester as jester_people
from studies.questions.methods import Draw, DrawMethod, Results, by_draw, draw_parts, fit_count
from studies.questions.persons_peers import N_SETTINGS, People, RatedRows, fit_peer, misordered
from studies.study import (
    CANNOT_BE_TESTED,
    DOES_NOT_HOLD,
    HOLDS,
    TARGET,
    Cell,
    Finding,
    Measured,
    Outcome,
    Part,
    Result,
    Settings,
    Study,
    Table,
    Verdict,
)
from studies.verdicts import mean_interval, standard_error, student_interval

SETTINGS = {  # set, ratings per person → people
    ("movielens", 5): 200,
    ("movielens", 10): 200,
    ("movielens", 20): 120,
    ("movielens", 40): 60,
    ("jester", 10): 120,
    ("jester", 30): 120,
    ("sushi", 5): 200,
}
N_DRAWS, MOST_TESTED, FEWEST_TESTED = 10, 50, 5
NEW_PEOPLE, ANSWERS = 30, (0, 2, 5, 10, 20)
NEW_SETTINGS = (("movielens", 20), ("jester", 30))
WITHOUT_COLUMNS = ("jester",)
ALL, ALL_TESTED = ("movielens", 0), 0.1  # the whole set: share of each person's ratings tested on

PERSONS, ITEMS, NEITHER = "persons and items", "items alone", "neither"
BOOSTED = {
    "LightGBM, columns": "lightgbm-columns",
    "LightGBM, numbers": "lightgbm-numbers",
    "LightGBM, means": "lightgbm-means",
}
FACTORS = "matrix factorisation"
PEERS = {**BOOSTED, FACTORS: "als", "biased means": "means", "one model per person": "one-each"}
# those that know an item by its columns alone
BY_COLUMNS = (NEITHER, "LightGBM, columns", "one model per person")
OWN = {PERSONS: "persons", ITEMS: "items", NEITHER: "neither"}
Setting: TypeAlias = tuple[str, int]
Errors: TypeAlias = dict[str, dict[Setting, dict[int, float]]]  # method → setting → draw → error


def parts(settings: Settings) -> list[Part]:
    """One part per draw and method: small draws first, so that few of them say something early."""
    found: list[Part] = []
    titles = {**OWN, **PEERS}
    for number in range(1 if settings.quick else N_DRAWS):
        for name, size in [("movielens", 5)] if settings.quick else SETTINGS:
            known = [
                DrawMethod(title, learner)
                for title, learner in titles.items()
                if name not in WITHOUT_COLUMNS or title not in BY_COLUMNS
            ]
            found += draw_parts(run, [("known", name, size, number)], known)
        for name, size in [("movielens", 5)] if settings.quick else NEW_SETTINGS:
            own = [DrawMethod(PERSONS, "persons")]
            found += draw_parts(run, [("new", name, size, number)], own)
    if not settings.quick:
        whole = {PERSONS: "persons", FACTORS: "als"}
        for title, learner in whole.items():
            arguments = {"learner": learner}
            found.append(
                Part(f'["all", "movielens", 0, 0, "{title}"]', everything, arguments, alone=True)
            )
    return found


# ---- rows of a draw


def ratings_of(folder: Path, name: str) -> Ratings:
    """A set of ratings."""
    if name == "movielens":
        return movielens(folder)
    if name == "sushi":
        return sushi(folder)
    people = jester_people(folder)
    return Ratings(people.scores, np.empty((people.scores.shape[1], 0)), None)


def sample(folder: Path, name: str, size: int, number: int) -> tuple[People, RatedRows]:
    """The ratings of a draw, and all ratings of people that are not among them: 20 + 5 or more."""
    data = ratings_of(folder, name)
    n_people = SETTINGS.get((name, size), 0) or len(data.scores)
    rng = np.random.default_rng([number, size, crc32(name.encode())])
    counts = (~np.isnan(data.scores)).sum(axis=1)
    order = rng.permutation(np.flatnonzero(counts >= size + FEWEST_TESTED))
    chosen, others = order[:n_people], order[n_people:]
    given: list[tuple[int, int]] = []
    asked: list[tuple[int, int]] = []
    for person in chosen.tolist():
        items = rng.permutation(np.flatnonzero(~np.isnan(data.scores[person])))
        given += [(person, item) for item in items[:size].tolist()]
        asked += [(person, item) for item in items[size:][:MOST_TESTED].tolist()]
    most = max(ANSWERS) + FEWEST_TESTED
    strangers = others[counts[others] >= most][:NEW_PEOPLE]
    new = [
        (person, item)
        for person in strangers.tolist()
        for item in rng.permutation(np.flatnonzero(~np.isnan(data.scores[person])))[
            : max(ANSWERS) + MOST_TESTED
        ].tolist()
    ]
    rows, test, unknown = (_rows(data, pairs) for pairs in (given, asked, new))
    return People(rows, test, data.items, data.users, number), unknown


def _rows(data: Ratings, pairs: Sequence[tuple[int, int]]) -> RatedRows:
    person, item = np.asarray(pairs, dtype=np.int64).reshape(-1, 2).T
    return RatedRows(person, item, data.scores[person, item])


# ---- fits


def run(settings: Settings, rng: np.random.Generator, draw: Draw, method: DrawMethod) -> Result:
    """The error of a method on a draw, and the time of its fit; for new people the errors after so
    many answers.
    """
    kind, name, size, number = str(draw[0]), str(draw[1]), int(draw[2]), int(draw[3])
    data, unknown = sample(settings.folder, name, size, number)
    begin = time.process_time()
    if method.learner not in OWN.values():
        predicted, tried = fit_peer(method.learner, data, quick=settings.quick)
        seconds = time.process_time() - begin
        return {"error": _error(data.test, predicted), "seconds": seconds, "fits": tried}
    model = fitted(data, method.learner)
    seconds = time.process_time() - begin
    if kind == "new":
        return new_people(model, data, unknown, quick=settings.quick)
    predicted = predicted_by(model, data, data.test, method.learner)
    return {"error": _error(data.test, predicted), "seconds": seconds}


def _error(rows: RatedRows, predicted: Floats) -> float:
    return float(misordered(rows, predicted[:, None])[0])


def columns(data: People, rows: RatedRows) -> Floats:
    """Columns of the items of the rows; where there are none one that is 0, as a table has to have
    one.
    """
    X = data.items[rows.item]
    return X if X.shape[1] else np.zeros((len(rows.y), 1))


def labels(prefix: str, numbers: Integers) -> list[str]:
    """Names of people or items."""
    return [f"{prefix} {number}" for number in numbers.tolist()]


def people_table(data: People, people: Integers) -> Any:
    """Columns of people, one row each, with their labels."""
    if data.people is None:
        return None
    chosen = np.unique(people)
    table = {"person": labels("person", chosen)}
    values = data.people[chosen]
    return pa.table(table | {f"column {at}": values[:, at] for at in range(values.shape[1])})


def fitted(data: People, learner: str) -> Any:
    """AutoRanker on the rows, with as many roles as the learner knows."""
    X, person, item = columns(data, data.rows), data.rows.person, data.rows.item
    model = AutoRanker(random_state=data.seed)
    if learner == "neither":
        return model.fit(X, data.rows.y, qid=person)
    roles: dict[str, Any] = {"item": labels("item", item)}
    if learner == "items":
        return model.fit(X, data.rows.y, qid=person, **roles)
    roles |= {"person": labels("person", person)}
    if data.people is not None:
        roles["persons"] = people_table(data, person)
    return model.fit(X, data.rows.y, **roles)


def predicted_by(model: Any, data: People, rows: RatedRows, learner: str) -> Floats:
    """Predictions for rows; with "consensus" in the place of the learner nobody's own."""
    X, item = columns(data, rows), labels("item", rows.item)
    if learner == "neither":
        return np.asarray(model.predict(X, qid=rows.person))
    if learner == "items":
        return np.asarray(model.predict(X, qid=rows.person, item=item))
    if learner == "consensus":
        return np.asarray(model.predict(X, item=item))
    return np.asarray(model.predict(X, item=item, person=labels("person", rows.person)))


def new_people(model: Any, data: People, unknown: RatedRows, *, quick: bool) -> Result:
    """Errors of every new person after so many answers, those of the consensus on the same rows, and
    the seconds of an update with ten answers.
    """
    own: list[list[float]] = []
    consensus: list[float] = []
    seconds: list[float] = []
    for person in np.unique(unknown.person)[: 2 if quick else None]:
        members = np.flatnonzero(unknown.person == person)
        test = unknown.take(members[max(ANSWERS) :])
        if np.ptp(test.y) == 0:
            continue
        consensus.append(_error(test, predicted_by(model, data, test, "consensus")))
        errors = []
        for n_answers in ANSWERS:
            known = deepcopy(model) if n_answers else model
            if n_answers:
                rows = unknown.take(members[:n_answers])
                begin = time.perf_counter()
                known.update(
                    columns(data, rows),
                    rows.y,
                    person=labels("person", rows.person),
                    item=labels("item", rows.item),
                )
                if n_answers == 10:
                    seconds.append(time.perf_counter() - begin)
            errors.append(_error(test, predicted_by(known, data, test, "persons")))
        own.append(errors)
    return {"errors": own, "consensus": consensus, "seconds": seconds}


def everything(settings: Settings, rng: np.random.Generator, learner: str) -> Result:
    """All ratings but a tenth of each person's, which are tested on; time by the clock, and memory."""
    data = whole_set(settings.folder)
    made: list[Any] = []

    def call() -> None:
        if learner == "als":
            made.append(fit_peer("als", data)[0])
        else:
            model = fitted(data, learner)
            made.append((model, time.perf_counter()))

    begin = time.perf_counter()
    memory = peak_memory_mb(call)
    seconds = time.perf_counter() - begin
    predicted = made[0] if learner == "als" else predicted_by(made[0][0], data, data.test, learner)
    return {"error": _error(data.test, predicted), "wall_seconds": seconds, "memory_mb": memory}


@lru_cache(maxsize=1)
def whole_set(folder: Path) -> People:
    """All of MovieLens: a tenth of the ratings of every person is tested on."""
    data = movielens(folder)
    rng = np.random.default_rng([0, 73])
    person, item = np.nonzero(~np.isnan(data.scores))
    rows = RatedRows(person, item, data.scores[person, item])
    test = rng.random(len(rows.y)) < ALL_TESTED
    return People(rows.take(~test), rows.take(test), data.items, data.users, 0)


# ---- what the errors say


def conclude(settings: Settings, results: Results) -> Outcome:
    """Ratios to the peers and to AutoRanker without the roles, new people, and what it costs."""
    draws = by_draw(results)
    errors = _errors(draws)
    new = {draw: found[PERSONS] for draw, found in draws.items() if draw[0] == "new"}
    whole = {
        title: result
        for draw, found in draws.items()
        if draw[0] == "all"
        for title, result in found.items()
    }
    tables = [_error_table(errors), _ratio_table(errors)]
    tables += [_new_table(new)] if new else []
    tables += [_whole_table(whole)] if whole else []
    findings = [
        *_peer_findings(errors),
        _below(errors, NEITHER, ("movielens", 20), 0.89),
        _below(errors, ITEMS, ("movielens", 20), 0.99),
        *_new_findings(new),
        *_cost_findings(draws, new, whole),
    ]
    return Outcome(tables, findings, n_fits=fit_count(results))


def _errors(draws: Mapping[Draw, Mapping[str, Result]]) -> Errors:
    """Errors of known people; draws of a setting that not all peers were run on are left out."""
    found: Errors = {}
    known = {draw: by_method for draw, by_method in draws.items() if draw[0] == "known"}
    needed: dict[Setting, set[str]] = {}
    for draw, by_method in known.items():
        titles = set(by_method) - set(OWN)
        needed.setdefault((str(draw[1]), int(draw[2])), set()).update(titles)
    for draw, by_method in known.items():
        setting = str(draw[1]), int(draw[2])
        if PERSONS in by_method and needed[setting] <= set(by_method):
            for method, result in by_method.items():
                by_number = found.setdefault(method, {}).setdefault(setting, {})
                by_number[int(draw[3])] = result["error"]
    return found


def _best_peer(errors: Errors, setting: Setting) -> str | None:
    """The peer of the lowest mean error of a setting."""
    there = [peer for peer in PEERS if setting in errors.get(peer, {})]
    means = {peer: np.mean(list(errors[peer][setting].values())) for peer in there}
    return min(means, key=lambda peer: float(means[peer])) if means else None


def _log_ratios(errors: Errors, other: str, setting: Setting) -> Floats:
    """Logarithms of our error over another's, one per draw."""
    ours, theirs = errors[PERSONS][setting], errors[other][setting]
    return np.log([ours[number] / theirs[number] for number in sorted(set(ours) & set(theirs))])


def _ratio_of_means(errors: Errors, other: str, setting: Setting) -> float:
    means = [np.mean(list(errors[method][setting].values())) for method in (PERSONS, other)]
    return float(means[0] / means[1])


def _shown(mean: float, low: float, high: float) -> str:
    if not np.isfinite(high):  # of one draw
        return f"{mean:.3f}"
    return f"{mean:.3f} ({low:.3f} to {high:.3f})"


def _judged(
    claim: str, evidence: str, interval: tuple[float, float, float], *, reached: bool
) -> Finding:
    verdict: Verdict = HOLDS if reached else DOES_NOT_HOLD
    return Finding(TARGET, claim, verdict, evidence, interval=interval)


def _untested(claim: str) -> Finding:
    return Finding(TARGET, claim, CANNOT_BE_TESTED, "No such setting was run.")


def _peer_findings(errors: Errors) -> list[Finding]:
    claims = (
        "known people, over the best peer of each setting: geometric mean at most 1.00",
        "known people, over the best peer of each setting: no setting above 1.03",
    )
    pairs = [
        (setting, peer)
        for setting in errors.get(PERSONS, {})
        if (peer := _best_peer(errors, setting)) is not None
    ]
    if not pairs:
        return [_untested(claim) for claim in claims]
    ratios = {setting: _ratio_of_means(errors, peer, setting) for setting, peer in pairs}
    mean = float(np.exp(np.mean(np.log(list(ratios.values())))))
    numbers = set.intersection(*(set(errors[PERSONS][setting]) for setting, _ in pairs))
    by_draw_number = [
        float(
            np.mean(
                [
                    np.log(errors[PERSONS][setting][number] / errors[peer][setting][number])
                    for setting, peer in pairs
                ]
            )
        )
        for number in sorted(numbers)
    ]
    _, low, high = np.exp(student_interval(by_draw_number)) if numbers else (mean, 0.0, np.inf)
    (name, size), worst = max(ratios.items(), key=lambda entry: entry[1])
    interval = mean, float(low), float(high)
    settings = f"{count(len(pairs), 'setting')}, {count(len(numbers), 'draw')} of all of them"
    return [
        _judged(claims[0], f"{_shown(*interval)}, {settings}.", interval, reached=mean <= 1.0),
        _judged(
            claims[1],
            f"{worst:.3f} ({name}, {size} ratings each).",
            (worst, worst, worst),
            reached=worst <= 1.03,
        ),
    ]


def _below(errors: Errors, other: str, setting: Setting, limit: float) -> Finding:
    claim = (
        f"MovieLens, {setting[1]} ratings each: at most {limit:.2f} x AutoRanker with {other}, by an"
        " interval without 1"
    )
    if setting not in errors.get(PERSONS, {}) or setting not in errors.get(other, {}):
        return _untested(claim)
    logs = _log_ratios(errors, other, setting)
    mean, low, high = (float(np.exp(end)) for end in student_interval(logs))
    evidence = f"{_shown(mean, low, high)}, {count(len(logs), 'draw')}."
    if len(logs) < 2:
        return Finding(TARGET, claim, CANNOT_BE_TESTED, evidence)
    return _judged(claim, evidence, (mean, low, high), reached=mean <= limit and high < 1)


def _new_gaps(new: Mapping[Draw, Result], name: str, at: int) -> tuple[Floats, Floats]:
    """Errors (people,) after so many answers, and of the consensus, over all draws."""
    own, consensus = [], []
    for draw, result in new.items():
        if draw[1] == name:
            own += [errors[at] for errors in result["errors"]]
            consensus += result["consensus"]
    return np.asarray(own), np.asarray(consensus)


def _new_findings(new: Mapping[Draw, Result]) -> list[Finding]:
    found = []
    for name in dict.fromkeys(name for name, _ in NEW_SETTINGS):
        claim = f"a new person, {name}: never above the consensus by more than 1 %"
        if not any(draw[1] == name for draw in new):
            found.append(_untested(claim))
            continue
        ratios = {}
        for at, n_answers in enumerate(ANSWERS):
            own, consensus = _new_gaps(new, name, at)
            ratios[n_answers] = float(own.mean() / consensus.mean())
        shown = ", ".join(f"{ratio:.3f} after {after}" for after, ratio in ratios.items())
        worst = max(ratios.values())
        found.append(_judged(claim, f"{shown}.", (worst, worst, worst), reached=worst <= 1.01))
    claim = (
        f"a new person, movielens: below the consensus from {ANSWERS[-1]} answers on, by an interval"
        " without 0"
    )
    own, consensus = _new_gaps(new, "movielens", len(ANSWERS) - 1)
    if len(own) == 0:
        return [*found, _untested(claim)]
    mean = float((own - consensus).mean())
    low, high = mean_interval(own - consensus)
    evidence = f"{mean:+.4f} ({low:+.4f} to {high:+.4f}), {len(own)} people."
    return [*found, _judged(claim, evidence, (mean, low, high), reached=high < 0)]


def _cost_findings(
    draws: Mapping[Draw, Mapping[str, Result]],
    new: Mapping[Draw, Result],
    whole: Mapping[str, Result],
) -> list[Finding]:
    seconds = [
        found[PERSONS]["seconds"]
        for draw, found in draws.items()
        if draw[0] == "known" and draw[1:3] == ("movielens", 20) and PERSONS in found
    ]
    claim = "2,400 ratings with persons: at most 15 s of processor time"
    found = [_untested(claim)]
    if seconds:
        most = max(seconds)
        evidence = f"{np.mean(seconds):.1f} s, at most {most:.1f} s, {count(len(seconds), 'draw')}."
        found = [_judged(claim, evidence, (most, most, most), reached=most <= 15)]
    claim = "ten answers of a new person: at most 1 s"
    times = [value for result in new.values() for value in result["seconds"]]
    if times:
        middle, most = float(np.median(times)), max(times)
        evidence = f"{middle:.2f} s in the median, at most {most:.2f} s, by the clock."
        found.append(_judged(claim, evidence, (middle, middle, most), reached=middle <= 1))
    else:
        found.append(_untested(claim))
    claim = "all of MovieLens: at most 10 min, 4 GB, and 1.00 x the error of matrix factorisation"
    if PERSONS not in whole or FACTORS not in whole:
        return [*found, _untested(claim)]
    own, other = whole[PERSONS], whole[FACTORS]
    ratio = own["error"] / other["error"]
    minutes, memory = own["wall_seconds"] / 60, own["memory_mb"] or 0.0
    evidence = f"{minutes:.1f} min, {memory:,.0f} MB, {ratio:.3f}."
    reached = minutes <= 10 and memory <= 4000 and ratio <= 1
    return [*found, _judged(claim, evidence, (ratio, ratio, ratio), reached=reached)]


# ---- tables


def _name(setting: Setting) -> str:
    return f"{setting[0]}, {setting[1]}"


def _error_table(errors: Errors) -> Table:
    methods = [method for method in (*OWN, *PEERS) if method in errors]
    settings = [setting for setting in SETTINGS if setting in errors.get(PERSONS, {})]
    settings = settings or sorted({s for method in methods for s in errors[method]})
    rows: list[tuple[Cell, ...]] = []
    for setting in settings:
        row: list[Cell] = [_name(setting)]
        for method in methods:
            values = list(errors[method].get(setting, {}).values())
            row.append(Measured(float(np.mean(values)), standard_error(values)) if values else None)
        rows.append((*row, max(len(errors[method].get(setting, {})) for method in methods)))
    head = ("set, ratings per person", *methods, "draws")
    note = f"Means and standard errors over draws; each peer chose among {N_SETTINGS} settings."
    return Table("Misordered pairs within persons", head, rows, digits=4, note=note)


def _ratio_table(errors: Errors) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for setting in errors.get(PERSONS, {}):
        peer = _best_peer(errors, setting)
        row: list[Cell] = [_name(setting), peer]
        for other in (peer, ITEMS, NEITHER):
            if other is None or setting not in errors.get(other, {}):
                row.append(None)
                continue
            row.append(
                _shown(*np.exp(student_interval(_log_ratios(errors, other, setting))).tolist())
            )
        rows.append(tuple(row))
    head = (
        "set, ratings per person",
        "best peer",
        "over the best peer",
        "over items alone",
        "over neither",
    )
    note = "Geometric means over draws of paired ratios, with Student's 95 % intervals."
    return Table("AutoRanker with persons and items: its error over others", head, rows, note=note)


def _new_table(new: Mapping[Draw, Result]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for name in dict.fromkeys(str(draw[1]) for draw in new):
        for at, n_answers in enumerate(ANSWERS):
            own, consensus = _new_gaps(new, name, at)
            low, high = mean_interval(own - consensus)
            gap = f"{(own - consensus).mean():+.4f} ({low:+.4f} to {high:+.4f})"
            rows.append(
                (name, n_answers, float(own.mean()), float(consensus.mean()), gap, len(own))
            )
    head = ("set", "answers", "misordered", "consensus", "difference (95 % over people)", "people")
    return Table("A person not seen in fit", head, rows, digits=4)


def _whole_table(whole: Mapping[str, Result]) -> Table:
    rows = [
        (title, result["error"], result["wall_seconds"] / 60, round(result["memory_mb"] or 0))
        for title, result in whole.items()
    ]
    return Table("All of MovieLens", ("method", "misordered", "minutes", "MB"), rows, digits=4)


STUDY = Study(
    name="persons",
    title="Persons and items that come back",
    about=(
        "AutoRanker with persons and items beside itself without persons, without either, and tuned"
        " peers, on ratings of films, jokes and sushi: misordered pairs within a person among"
        f" ratings that are held out, at most {MOST_TESTED} of each person. Jokes have no columns."
        f" {N_DRAWS} draws; the tables say how many were run. Peers choose among {N_SETTINGS} settings"
        " each by splits of the ratings of every person (six up to ten ratings, else three):"
        " LightGBM's lambdarank with columns, with the numbers of items and persons as"
        " categories, and with out-of-fold means and counts of items; matrix factorisation; biased"
        " means; one model per person. The peer of a setting is the method of the lowest mean error."
        f" A new person is one of {NEW_PEOPLE} whom fit has not seen: their answers are taken up by"
        " update, one person at a time."
    ),
    parts=parts,
    conclude=conclude,
    files=(*MOVIELENS, *JESTER, *SUSHI),
    fixed_draws=True,
    optional=("lightgbm",),
)
STUDIES = (STUDY,)
