"""What [Tsivtsivadze2013] says about ratings, in verdicts, tables, figures and notes: its numbers
beside ours.

Who errs less than whom, who alike, and how sparse models are. Each pair of methods in each of the
three groups of reference users is a case of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from corank.experiments.verdict import signed_rank
from studies.batched_fits.protocol import GROUPS
from studies.data import Floats
from studies.papers.pursuit_ratings import (
    CENTRED,
    MATCHING,
    RANK,
    RANKING,
    READINGS,
    REFITTED,
    RLS,
    SEMI_SUPERVISED,
    SPARSE,
    SS,
    SS_APART,
    SS_HALVES,
    SS_HALVES_APART,
    SS_ON_ALL,
    SUPERVISED,
    SVM,
    TABLED,
    Group,
    UserErrors,
    span,
)
from studies.study import (
    CANNOT_BE_TESTED,
    DOES_NOT_HOLD,
    HOLDS,
    OWN,
    Cell,
    Figure,
    Finding,
    Kind,
    Measured,
    Panel,
    Series,
    Table,
    Verdict,
)
from studies.verdicts import LEVEL, NORMAL, Gap, standard_error

# users of a repetition, and to choose parameters on, as the paper has them. With fewer, as in a
# quick run, tests say less and other parameters are chosen: no verdict follows from that
PAPERS_USERS = 300
ONCE = 0.5  # of the repetitions, in which a difference that is there shows
WRONG = "share of pairs in the wrong order"

Published = dict[str, tuple[float, float, float]]  # by method, one number per group


def with_readings(published: Published) -> Published:
    """The printed numbers, for each reading of what the paper leaves open: the views of
    semi-supervised pursuit, and whether regression has an intercept.
    """
    return (
        published
        | {reading: published[SS] for reading in READINGS if SS in published}
        | {with_mean: published[name] for name, with_mean in CENTRED.items()}
    )


@dataclass(frozen=True)
class PaperTable:
    """A table of the paper: what it prints, and where its errors are here."""

    tested: UserErrors
    task: str
    published: Published
    measure: str = "pairs"
    chosen_by: str = "pairs"

    def errors(self, group: Group, method: str) -> Floats:
        """One value per test user."""
        return self.tested.errors(self.task, group, method, self.measure, chosen_by=self.chosen_by)

    def in_repetitions(self, group: Group, method: str) -> Floats:
        """Errors repetition by repetition: (repetitions, users)."""
        return self.tested.in_repetitions(
            self.task, group, method, self.measure, chosen_by=self.chosen_by
        )

    def measured(self, group: Group, method: str) -> Measured:
        """The mean over test users and its standard error."""
        return _measured(self.errors(group, method))

    def sparsity(self, group: Group, method: str) -> float:
        """Kernel functions of a model per scored item, the mean over test users."""
        return float(
            np.nanmean(
                self.tested.errors(self.task, group, method, "share", chosen_by=self.chosen_by)
            )
        )


def _measured(values: Floats) -> Measured:
    values = values[~np.isnan(values)]
    return Measured(float(values.mean()), standard_error(values))


# ---- pairs of methods


@dataclass(frozen=True)
class MethodPair:
    """Two methods over the same test users of a group.

    once : share of single repetitions in which they differ by more than chance
    n_repetitions, n_once : how many repetitions there are, and test users in one
    """

    group: Group
    better: str
    worse: str
    gap: Gap
    published: float | None = None
    once: float = float("nan")
    n_repetitions: int = 0
    n_once: int = 0

    @property
    def verdict(self) -> Verdict:
        """Whether the first errs less; only partly where it does by less than half of what is
        printed.
        """
        if self.is_small:
            return CANNOT_BE_TESTED
        printed_gain = self.published is not None and self.published < 0
        return self.gap.verdict(self.published if printed_gain else None, LEVEL)

    @property
    def is_small(self) -> bool:
        """Whether it comes from fewer users than the paper's."""
        return self.n_once < PAPERS_USERS

    @property
    def case(self) -> str:
        """The group and the methods."""
        return f"{span(self.group)}, {self.better} against {self.worse}"

    @property
    def shown(self) -> str:
        """Their difference, beside the printed one."""
        printed = "" if self.published is None else f"; printed {self.published:+.3f}"
        return f"{self.gap.shown} over {self.gap.n_units:,} users{printed}"

    def finding(
        self, source: str, claim: str, verdict: Verdict, more: str = "", kind: Kind = OWN
    ) -> Finding:
        """What became of a claim about the pair."""
        few = f"; {self.n_once} users of a repetition are too few" if self.is_small else ""
        evidence = f"difference {self.shown}{more}{few}."
        return Finding(source, claim, verdict, evidence, self.case, kind, self.gap.interval)


def method_pair(table: PaperTable, group: Group, better: str, worse: str) -> MethodPair:
    """Two methods of one table."""
    at, printed = GROUPS.index(group), table.published
    published = (
        printed[better][at] - printed[worse][at] if better in printed and worse in printed else None
    )
    repetitions = table.in_repetitions(group, better) - table.in_repetitions(group, worse)
    once = float(np.mean([signed_rank(differences) < LEVEL for differences in repetitions]))
    gap = user_gap(table.errors(group, better), table.errors(group, worse))
    return MethodPair(group, better, worse, gap, published, once, *repetitions.shape)


def user_gap(better: Floats, worse: Floats) -> Gap:
    """The gap between errors (users,). There are hundreds of users, or thousands: the mean is as
    good as normal.
    """
    values = better - worse
    values = values[~np.isnan(values)]
    mean, reach = float(values.mean()), NORMAL * standard_error(values)
    return Gap(mean, mean - reach, mean + reach, signed_rank(values), len(values), 1)


def method_pairs(
    table: PaperTable, better: Sequence[str], worse: Sequence[str]
) -> list[MethodPair]:
    """All pairs of the methods in all groups."""
    return [
        method_pair(table, group, first, second)
        for group in GROUPS
        for first in better
        for second in worse
        if first != second
    ]


def pairs_among(table: PaperTable, methods: Sequence[str]) -> list[MethodPair]:
    """Every pair of the methods once, in all groups."""
    return [
        method_pair(table, group, first, second)
        for group in GROUPS
        for at, first in enumerate(methods)
        for second in methods[at + 1 :]
    ]


# ---- kinds of claims


def err_less(
    source: str, claim: str, pairs: Sequence[MethodPair], kind: Kind = OWN
) -> list[Finding]:
    """The claim that the first of each pair errs less, pair by pair."""
    return [pair.finding(source, claim, pair.verdict, kind=kind) for pair in pairs]


def err_alike(source: str, claim: str, pairs: Sequence[MethodPair]) -> list[Finding]:
    """The claim that no difference is significant, in tests over as many users as the paper's."""
    findings = []
    for pair in pairs:
        verdict: Verdict = HOLDS if pair.once <= ONCE else DOES_NOT_HOLD
        verdict = CANNOT_BE_TESTED if pair.is_small else verdict
        more = (
            f"; p < {LEVEL} in {pair.once:.0%} of {pair.n_repetitions} repetitions of"
            f" {pair.n_once} users each"
        )
        findings.append(pair.finding(source, claim, verdict, more))
    return findings


def margins(table: PaperTable) -> dict[Group, float]:
    """By group, half of the difference that the paper prints between regression and ranking (RLS
    and RankRLS), which it calls one: up to it, methods are as good as each other.
    """
    printed = table.published
    return {group: (printed[RLS][at] - printed[RANK][at]) / 2 for at, group in enumerate(GROUPS)}


def not_worse(
    source: str, claim: str, pairs: Sequence[MethodPair], most: Mapping[Group, float]
) -> list[Finding]:
    """The claim that the first of each pair does about as well: it errs by at most `most` more."""
    findings = []
    for pair in pairs:
        limit, gap = most[pair.group], pair.gap
        verdict = (
            HOLDS if gap.high <= limit else DOES_NOT_HOLD if gap.low > limit else CANNOT_BE_TESTED
        )
        verdict = CANNOT_BE_TESTED if pair.is_small else verdict
        more = f"; as good up to {limit:+.4f}, half of what the paper prints for RLS and RankRLS"
        findings.append(pair.finding(source, claim, verdict, more))
    return findings


def not_better(source: str, claim: str, pairs: Sequence[MethodPair]) -> list[Finding]:
    """The claim that the first of each pair does not err less."""
    findings = []
    for pair in pairs:
        errs_less = pair.gap.high < 0 and pair.gap.p < LEVEL
        verdict: Verdict = (
            DOES_NOT_HOLD if errs_less else HOLDS if pair.gap.low > 0 else CANNOT_BE_TESTED
        )
        verdict = CANNOT_BE_TESTED if pair.is_small else verdict
        findings.append(pair.finding(source, claim, verdict))
    return findings


def sparser(source: str, claim: str, table: PaperTable, method: str, share: float) -> list[Finding]:
    """The claim that models have fewer kernel functions than scored items, by that share."""
    findings = []
    for group in GROUPS:
        used = table.tested.errors(table.task, group, method, "share", chosen_by=table.chosen_by)
        less, error = 1 - float(np.nanmean(used)), standard_error(used[~np.isnan(used)])
        low, high = less - NORMAL * error, less + NORMAL * error
        verdict = HOLDS if low >= share else DOES_NOT_HOLD if high < share else CANNOT_BE_TESTED
        evidence = f"{less:.1%} ({low:.1%} to {high:.1%}) fewer kernel functions than RankRLS has."
        interval = (less, low, high)
        findings.append(Finding(source, claim, verdict, evidence, span(group), OWN, interval))
    return findings


# ---- what the paper says of both data sets

ABOUT = (
    "The features of a {item} are its ratings by 300 reference users who rated 20 to 40, 40 to 60"
    " or 60 to 80 {items}, the median of a user's ratings where one is missing. Test users rated 50"
    " to 300 {items}; half of their ratings is for training, half for testing. 300 test users, ten"
    " repetitions with other reference and test users, one model per user. Gaussian kernels"
    " exp(−gamma·d²), gamma from 2^-15 to 2^15. All parameters (gamma, alpha, cost, numbers of"
    " steps, weight of the agreement) are chosen once per group, by the mean error of 300 hold-out"
    " users who, like their reference users, are never tested. Semi-supervised: only half of the"
    " training ratings are seen; the dictionaries of the two views are kernels at one half each of"
    " the seen and unseen {items}. The paper's \"two views, each containing half of the scored and"
    ' half of the unscored data points" is read in three ways: both views are fitted to all that'
    " is seen and agree on all that is not; each is fitted to its own half of what is seen, and"
    " they agree on what is not; so too, and they agree on what is seen as well. Where the paper is silent: pursuit goes as its figures print it, without refitting"
    " (refitted variants beside it); regression has no intercept, which is our choice (with one"
    " beside it); RankSVM has the squared hinge"
    " loss; Sparse RankRLS has as many basis functions as ranking pursuit has, the first ones of a"
    " random order; pairs with equal ratings are left out. --quick: 40 hold-out users, two times 50"
    " test users, every third width."
)


def common_findings(
    supervised: PaperTable, semi: PaperTable, first: str, second: str, share: float
) -> list[Finding]:
    """What the paper says of both data sets; `share`: how much sparser models are said to be."""
    return [
        *not_worse(
            first,
            "Ranking pursuit performs like RankSVM and RankRLS",
            method_pairs(supervised, [RANKING], [SVM, RANK]),
            margins(supervised),
        ),
        *sparser(
            first,
            f"The models of ranking pursuit are on average {share:.0%} sparser than those of"
            " RankSVM and RankRLS",
            supervised,
            RANKING,
            share,
        ),
        *err_less(
            f"{first}, sect. 5",
            "Choosing kernel functions greedily (ranking pursuit) errs less than choosing as many"
            " at random (Sparse RankRLS)",
            method_pairs(supervised, [RANKING], [SPARSE]),
        ),
        *err_less(
            second,
            "Semi-supervised ranking pursuit errs less than every supervised method",
            method_pairs(semi, READINGS, TABLED),
        ),
        *err_less(
            f"{second}, sect. 3.1",
            "Unscored data improve it (against the same views without agreement; printed is what"
            " sets it apart from supervised pursuit)",
            _agreement_pairs(semi),
        ),
    ]


def _agreement_pairs(semi: PaperTable) -> list[MethodPair]:
    """Each reading with and without agreement. The paper prints no such pair: beside it stands the
    difference of its semi-supervised and supervised pursuit.
    """
    apart = {SS: SS_APART, SS_HALVES: SS_HALVES_APART, SS_ON_ALL: SS_HALVES_APART}
    pairs = []
    for at, group in enumerate(GROUPS):
        asked = semi.published[SS][at] - semi.published[RANKING][at]
        for reading, without in apart.items():
            pairs.append(replace(method_pair(semi, group, reading, without), published=asked))
    return pairs


def alike_findings(
    source: str, table: PaperTable, kind: str, methods: Sequence[str]
) -> list[Finding]:
    """The claim that methods of a kind do not differ."""
    return err_alike(
        source, f"The {kind} methods do not differ significantly", pairs_among(table, methods)
    )


def fewer_scores_findings(source: str, supervised: PaperTable, semi: PaperTable) -> list[Finding]:
    """The claim that the same test users are ranked worse with half of their training ratings than
    with all.
    """
    pairs = []
    for at, group in enumerate(GROUPS):
        for method in TABLED:
            published = supervised.published[method][at] - semi.published[method][at]
            gap = user_gap(supervised.errors(group, method), semi.errors(group, method))
            shape = supervised.in_repetitions(group, method).shape
            pair = MethodPair(
                group, f"{method} with all", "with half of them", gap, published, np.nan, *shape
            )
            pairs.append(pair)
    return err_less(source, "Every supervised method errs more with half of the scores", pairs)


def common_notes(supervised: PaperTable, semi: PaperTable) -> list[str]:
    """How far RankRLS is from the paper, and where the gap to regression comes from."""
    away = [
        f"{span(group)}:"
        f" {supervised.measured(group, RANK).value - supervised.published[RANK][at]:+.3f}"
        for at, group in enumerate(GROUPS)
    ]
    centred = [_mean_gap(supervised, group, CENTRED[RLS], RANK) for group in GROUPS]
    plain = [_mean_gap(supervised, group, RLS, RANK) for group in GROUPS]
    intercept = (
        "RLS with the mean score of a user taken out minus RankRLS:"
        f" {', '.join(f'{gap:+.4f}' for gap in centred)}; without an intercept, as in the tables:"
        f" {', '.join(f'{gap:+.4f}' for gap in plain)}. The paper is silent on it."
    )
    return [
        f"Supervised RankRLS minus the paper's number: {', '.join(away)}.",
        intercept,
    ]


def _mean_gap(table: PaperTable, group: Group, first: str, second: str) -> float:
    return float(np.nanmean(table.errors(group, first) - table.errors(group, second)))


# ---- tables


def common_tables(supervised: PaperTable, semi: PaperTable, first: str, second: str) -> list[Table]:
    """Both tables of the paper, what it leaves open, tests, sparsity and choices."""
    tested = supervised.tested
    variants = [
        name
        for name in tested.methods(SUPERVISED)
        if any(name.startswith(f"{base},") for base in TABLED)
    ]
    compared = [
        (RANKING, RANK),
        (RANK, RLS),
        (RANKING, MATCHING),
        (RANKING, SPARSE),
        (RANKING, SVM),
    ]
    pairs = [method_pair(supervised, group, *names) for group in GROUPS for names in compared]
    co_pairs = [
        method_pair(semi, group, reading, name)
        for group in GROUPS
        for reading in READINGS
        for name in TABLED
    ]
    users = (
        f"± one standard error over {tested.n_users:,} test users, who are the same for all methods"
        " and groups."
    )
    return [
        paper_table(f"{first}, supervised: {WRONG}", supervised, TABLED, note=users),
        paper_table(
            f"{second}, half of the scores: {WRONG}",
            semi,
            (*TABLED, *SEMI_SUPERVISED),
        ),
        _variant_table(supervised, variants),
        _test_table([*pairs, *co_pairs]),
        _sparsity_table(
            [supervised, semi],
            (SVM, RANK, SPARSE, RANKING, REFITTED, MATCHING, *SEMI_SUPERVISED),
        ),
        _choice_table([supervised, semi]),
    ]


def paper_table(
    title: str, table: PaperTable, methods: Sequence[str], *, digits: int = 3, note: str = ""
) -> Table:
    """The paper's numbers and ours, one row per method."""
    rows: list[list[Cell]] = []
    for method in methods:
        row: list[Cell] = [method]
        for at, group in enumerate(GROUPS):
            printed = table.published.get(method)
            row += [None if printed is None else printed[at], table.measured(group, method)]
        rows.append(row)
    head = [
        column for group in GROUPS for column in (f"{span(group)}, paper", f"{span(group)}, ours")
    ]
    return Table(title, ("method", *head), rows, digits=digits, note=note)


def _variant_table(table: PaperTable, methods: Sequence[str]) -> Table:
    """What becomes of a method where the paper leaves a choice open, less the method as it is in
    the other tables.
    """
    rows: list[list[Cell]] = []
    for method in methods:
        base = next(name for name in TABLED if method.startswith(f"{name},"))
        row: list[Cell] = [method]
        for group in GROUPS:
            change = _measured(table.errors(group, method) - table.errors(group, base))
            row += [table.measured(group, method), change]
        rows.append(row)
    head = [column for group in GROUPS for column in (f"{span(group)}, ours", "change")]
    return Table(
        f"Choices that the paper leaves open: {WRONG}",
        ("method", *head),
        rows,
        note=(
            "change: beside the method of the same name in the table above, over the same test"
            " users."
        ),
    )


def _test_table(pairs: Sequence[MethodPair]) -> Table:
    """Paired differences with their tests."""
    rows: list[list[Cell]] = []
    for pair in pairs:
        p = "< 0.0001" if pair.gap.p < 1e-4 else f"{pair.gap.p:.2g}"
        interval = f"{pair.gap.low:+.4f} to {pair.gap.high:+.4f}".replace("-", "−")
        rows.append(
            [
                span(pair.group),
                f"{pair.better} minus {pair.worse}",
                pair.published,
                pair.gap.mean,
                interval,
                p,
            ]
        )
    return Table(
        f"Differences over the same test users: {WRONG}",
        ("group", "difference", "paper", "ours", "95 % interval", "p"),
        rows,
        digits=4,
        note="Wilcoxon's signed-rank test over test users, two-sided.",
    )


def _sparsity_table(tables: Sequence[PaperTable], methods: Sequence[str]) -> Table:
    """Kernel functions per scored item."""
    rows: list[list[Cell]] = [
        [table.task, method, *(table.sparsity(group, method) for group in GROUPS)]
        for table in tables
        for method in methods
        if method in table.tested.methods(table.task)
    ]
    return Table(
        "Kernel functions of a model for every scored item",
        ("task", "method", *(span(group) for group in GROUPS)),
        rows,
        digits=2,
        note="1 is a model with a kernel function at every scored item, as RankRLS has it.",
    )


def _choice_table(tables: Sequence[PaperTable]) -> Table:
    """Parameters that hold-out users chose."""
    rows: list[list[Cell]] = []
    for table in tables:
        for method in table.tested.methods(table.task):
            for group in GROUPS:
                choice = table.tested.choice(table.task, group, method)
                others = ", ".join(
                    f"{name} {value:.3g}" for name, value in choice["candidate"].items()
                )
                rows.append(
                    [
                        table.task,
                        method,
                        span(group),
                        f"2^{choice['width']}",
                        others,
                        choice["error"],
                    ]
                )
    return Table(
        "Parameters chosen on hold-out users",
        ("task", "method", "group", "gamma", "others", "error on them"),
        rows,
        digits=4,
    )


# ---- figures


def common_figures(supervised: PaperTable, semi: PaperTable) -> list[Figure]:
    """Errors by group, and by the number of steps."""
    panels = [
        _error_panel(supervised, [RLS, RANK, RANKING]),
        _error_panel(semi, [RLS, RANK, RANKING, SS]),
    ]
    caption = (
        "Share of pairs in the wrong order by group of reference users; bands of 95 % over test"
        " users; dashed: the paper."
    )
    return [Figure("errors", caption, panels), _steps_figure(supervised)]


def _error_panel(table: PaperTable, methods: Sequence[str]) -> Panel:
    """Errors by group beside the paper's."""
    middles = [float(sum(group)) / 2 for group in GROUPS]
    series = []
    for method in methods:
        cells = [table.measured(group, method) for group in GROUPS]
        low, high = (
            [cell.value + sign * NORMAL * (cell.error or 0.0) for cell in cells] for sign in (-1, 1)
        )
        series.append(Series(method, middles, [cell.value for cell in cells], low, high))
    series += [
        Series(
            f"{method}, paper",
            middles,
            list(table.published[method]),
            kind="dashed",
            colour_of=method,
        )
        for method in methods
        if method in table.published
    ]
    return Panel(table.task, "ratings of a reference user (middle of the group)", WRONG, series)


def _steps_figure(table: PaperTable) -> Figure:
    """Test errors against the number of greedy steps, at the width that was chosen."""
    panels = []
    for group in GROUPS:
        series = []
        for method in (RANKING, REFITTED):
            curve = table.tested.curve(table.task, group, method)
            steps, means = [point["steps"] for point in curve], [point["error"] for point in curve]
            low, high = (
                [point["error"] + sign * NORMAL * point["spread"] for point in curve]
                for sign in (-1, 1)
            )
            series.append(Series(method, steps, means, low, high))
        level = table.measured(group, RANK).value
        series.append(
            Series(RANK, [series[0].x[0], series[0].x[-1]], [level, level], kind="dashed")
        )
        panels.append(Panel(span(group), "steps", WRONG, series, log="x"))
    return Figure(
        "steps",
        "Ranking pursuit: share of pairs in the wrong order on test users against the number of"
        " steps, supervised; bands of 95 %; dashed: RankRLS. The number of steps was chosen on"
        " hold-out users, not here.",
        panels,
    )
