"""The candidates of an average: which encoding, which kernel, how wide, of which views. The list is
data.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

from corank.core.storable import ADDED_LATER, Finite, storable
from corank.learners.average.encoding import (
    AS_GIVEN,
    BOTH_RANKS,
    ENCODINGS,
    IDENTITY,
    KERNELS,
    OWN_KERNEL,
    PERSON,
    PERSONS,
    QUERY_RANKS,
    RANKS,
    STANDARD,
    WIDE_KERNELS,
    WITHIN_QUERIES,
    rows_over_links,
)

Combination: TypeAlias = Literal["all", "one", "sum", "product", "agreement"]

PRODUCT_KERNELS = ("rbf", "laplacian")  # that are products of kernels of single columns
KERNELS_OF_NUMBERS = ("linear", "rbf", "laplacian")
KERNELS_OF_TEXT = ("linear", "cosine", "rbf")  # and of CSR
WIDTHS = (1.0, 2.0, 4.0, 8.0, 16.0)  # in units of the median distance
WIDTHS_OF_VIEWS = (0.5, 1.0, 2.0, 4.0)
RELEVANCE_WIDTHS = (1.0, 2.0, 4.0, 8.0)
WIDTHS_WITHIN_QUERIES = (1.0, 2.0, 4.0, 8.0)
# of values over all rows beside ranks within queries, which say more together: narrow ones earn
# their weight where there are many queries
WIDTHS_OF_BOTH = {"laplacian": (0.5, 1.0, 2.0, 4.0), "rbf": (1.0, 2.0)}
RELEVANCE_WIDTHS_OF_BOTH = (1.0, 2.0)
# of all learned widths together, which are those of an rbf kernel
WIDTHS_PER_COLUMN = (("rbf", 1.0), ("rbf", 1.4), ("exponential", 2.0), ("laplacian", 4.0))
STRENGTHS = (0.01, 0.1, 1.0, 10.0, 100.0)
HOPS = (2, 16)  # links that columns travel along
WIDTHS_OF_KINDS = (1.0, 4.0)
WIDTHS_OVER_LINKS = (1.0, 4.0)
WIDTHS_BESIDE_ITEMS = (1.0, 4.0)
SHARE_OF_ITEMS = 0.1  # of the kernel, where item effects stand beside columns


COLUMNS = "columns"
FACTORS = "factors"  # not a kernel: what it becomes where answers are very many
# of the kernel between answers: what of the item it compares, times what of who answered
PARTS = (
    (COLUMNS, ""),
    (IDENTITY, ""),
    (COLUMNS, PERSON),
    (IDENTITY, PERSON),
    (COLUMNS, PERSONS),
    (IDENTITY, PERSONS),
    ("", PERSON),
)
IN_WORDS = (
    "",
    "one effect per item",
    "own deviations of each person",
    "own effects of items for each person",
    "columns of persons x columns",
    "columns of persons x items",
    "one level per person",
)
# of the candidates for items and persons
BASES = (
    (STANDARD, "rbf", 1.0),
    (STANDARD, "rbf", 4.0),
    (STANDARD, "laplacian", 4.0),
    (RANKS, "rbf", 2.0),
    (RANKS, "laplacian", 4.0),
)
BASES_OF_TEXT = ((STANDARD, "linear", 1.0), (STANDARD, "cosine", 1.0), (STANDARD, "rbf", 1.0))

MAX_HOPS = 1_000  # links that rows see each other over


@storable("Candidate")
@dataclass(frozen=True)
class Candidate:
    """One closed-form model of the average.

    Parameters
    ----------
    encoding : "standardised", "normal scores", "normal scores within queries", "normal scores overall
        and within queries" or "as given"
    kernel : "linear", "cosine", "rbf", "exponential" or "laplacian"
    width : of the last three, in units of the median distance between scored rows
    views : "all" (all columns at once), "one" (of the views), "sum" or "product" (of the kernels of
        views), or "agreement" (views that agree on unscored rows)
    of : numbers of the views, in ascending order; none stands for all
    strength : of the agreement: the weight of one unscored row, where the kernel of a row with
        itself is 1
    relevance : whether columns are scaled by how well they go with the scores
    second_order : whether rows are alike that are similar to the same unscored rows, instead of to
        each other
    hops : over how many links rows see the columns of others; 0 for their own columns alone
    beside : whether the kernel of a row's own columns is added to that of the columns over links
    identity : the share of the kernel that is 1 for rows of the same item and else 0, beside that
        of the columns: one effect per item. 1 for item effects alone
    prior : its weight before any score is seen
    shares : of the parts of the kernel between answers, in the order of PARTS: columns; one effect
        per item; both once more for each person alone; both times columns of persons; one level per
        person. Their sum is 1; none stands for a kernel between items alone
    per_column : whether every column has a width of its own, learned from scored rows (30 or more)
        without those that it is judged by: for rbf, exponential and laplacian kernels of regressors
    """

    encoding: str = STANDARD
    kernel: str = "rbf"
    width: Finite = 1.0
    views: Combination = "all"
    of: tuple[int, ...] = ()
    strength: Finite = 0.0
    relevance: bool = False
    second_order: bool = False
    hops: int = 0
    beside: bool = False
    prior: Finite = 1.0
    identity: Finite = field(default=0.0, metadata={ADDED_LATER: True})
    per_column: bool = field(default=False, metadata={ADDED_LATER: True})
    shares: tuple[Finite, ...] = field(default=(), metadata={ADDED_LATER: True})

    def is_sound(self) -> bool:
        """Whether a fitted average can have such a candidate."""
        if not (self.width > 0 and self.prior > 0 and self.strength >= 0):
            return False
        if self.shares and (len(self.shares) != len(PARTS) or min(self.shares) < 0):
            return False
        return self.hops <= MAX_HOPS and 0 <= self.identity <= 1

    @property
    def parts(self) -> list[tuple[str, str]]:
        """The parts of the kernel between answers."""
        return [part for part, share in zip(PARTS, self.shares, strict=bool(self.shares)) if share]

    @property
    def rows(self) -> str:
        """The name of the matrix whose rows its kernel compares."""
        return IDENTITY if self.identity == 1 else rows_over_links(self.encoding, self.hops)

    @property
    def needs_unscored(self) -> bool:
        """Whether it is made of unscored rows too."""
        return self.second_order or self.views == "agreement"

    @property
    def learns_factors(self) -> bool:
        """Whether columns are multiplied by what is learned from the scores."""
        return self.relevance or self.per_column

    @property
    def can_have_widths(self) -> bool:
        """Whether every column of its kernel can have a width of its own."""
        others = self.relevance or self.second_order or self.hops or self.identity
        of_all = self.kernel in WIDE_KERNELS and self.views == "all"
        return of_all and self.encoding in (STANDARD, RANKS) and not others

    def describe(self, view_names: Sequence[str] = ()) -> str:
        """The candidate in a few words."""
        if self.kernel == FACTORS:
            return "vectors of persons and items, whose products are scores"
        if self.shares:
            columns = replace(self, shares=(), identity=0.0).describe(view_names)
            words = zip(IN_WORDS, self.shares, strict=True)
            return "; ".join(f"{what or columns} ({share:.0%})" for what, share in words if share)
        if self.identity == 1:
            return "one effect per item"
        if self.identity:
            return (
                f"{replace(self, identity=0.0).describe(view_names)}, and one effect per item"
                f" ({self.identity:.0%})"
            )
        text = f"{self.kernel}, {self.encoding} columns"
        if self.encoding == OWN_KERNEL:
            text = "a kernel of your own"
        if self.per_column:
            wider = f", times {self.width:g}" * (self.kernel == "rbf" and self.width != 1)
            text = f"{self.kernel} with one width per column{wider}, {self.encoding} columns"
        elif self.kernel in WIDE_KERNELS:
            text = f"{self.kernel} of width {self.width:g}, {self.encoding} columns"
        if self.relevance:
            text += " scaled by relevance"
        if self.second_order:
            text += ", similar to the same unscored rows"
        if self.hops:
            text += f" over {self.hops} links" + " and their own" * self.beside
        if self.views == "agreement":
            return f"{text}, views that agree (strength {self.strength:g})"
        if self.views == "all":
            return text
        seen = [
            view_names[number] if number < len(view_names) else f"view {number + 1}"
            for number in self.of
        ]
        if self.views == "one":
            return f"{text} of {seen[0]}"
        return f"{text}, {self.views} of {' and '.join(seen) or 'views'}"


@storable("WeighedCandidate")
@dataclass(frozen=True)
class WeighedCandidate:
    """One line of `candidates_`.

    Attributes
    ----------
    candidate : what was fitted
    what : the same in words
    weight : its share in the average
    error : held-out squared error of its scores; for rankers of score differences within queries,
        at their best scale
    """

    candidate: Candidate
    what: str
    weight: float
    error: float


def check_candidates(candidates: Sequence[Candidate], n_views: int) -> None:
    """Refuse candidates that cannot be built."""
    if not isinstance(candidates, Sequence) or not candidates:
        raise ValueError(f"candidates must be None or a list of Candidate, got {candidates!r}.")
    for candidate in candidates:
        if not isinstance(candidate, Candidate):
            raise TypeError(f"candidates must hold Candidate objects, got {candidate!r}.")
        if candidate.encoding not in ENCODINGS:
            raise ValueError(
                f"candidates: encoding {candidate.encoding!r} is not known; use"
                f" {', '.join(ENCODINGS)}."
            )
        if candidate.kernel not in KERNELS:
            raise ValueError(
                f"candidates: kernel {candidate.kernel!r} is not known; use {', '.join(KERNELS)}."
            )
        if not (candidate.width > 0 and candidate.strength >= 0 and candidate.prior > 0):
            raise ValueError(
                "candidates: width and prior must be above 0, strength at least 0, got"
                f" {candidate!r}."
            )
        if candidate.views not in ("all", "one", "sum", "product", "agreement"):
            raise ValueError(f"candidates: views {candidate.views!r} is not known.")
        if candidate.views != "all" and (
            n_views < 1 or not set(candidate.of) <= set(range(n_views))
        ):
            raise ValueError(
                f"candidates: {candidate!r} needs views that were not declared; give views=."
            )
        if candidate.views == "one" and len(candidate.of) != 1:
            raise ValueError(
                f"candidates: views='one' takes one view, as in of=(0,), got {candidate!r}."
            )
        if candidate.second_order and (candidate.relevance or candidate.views == "agreement"):
            raise ValueError(
                "candidates: second_order goes with neither relevance nor agreement, got"
                f" {candidate!r}."
            )
        if candidate.views == "product" and candidate.kernel not in PRODUCT_KERNELS:
            raise ValueError(
                "candidates: a product of views takes an rbf or laplacian kernel, got"
                f" {candidate!r}."
            )
        if not 0 <= candidate.identity <= 1 or (candidate.identity and candidate.needs_unscored):
            raise ValueError(
                "candidates: identity must lie between 0 and 1, and goes with neither second_order"
                f" nor agreement, got {candidate!r}."
            )
        if candidate.shares and (
            len(candidate.shares) != len(PARTS)
            or min(candidate.shares) < 0
            or max(candidate.shares) == 0
            or candidate.learns_factors
            or candidate.needs_unscored
        ):
            raise ValueError(
                f"candidates: shares are {len(PARTS)} numbers of at least 0, which go with neither"
                " relevance, per_column, second_order nor agreement, got"
                f" {candidate!r}."
            )
        if candidate.per_column and not candidate.can_have_widths:
            raise ValueError(
                "candidates: per_column needs an rbf, exponential or laplacian kernel of all columns,"
                f" standardised or as normal scores, and goes with nothing else, got {candidate!r}."
            )
        if candidate.hops < 0 or (
            candidate.hops
            and (candidate.views == "agreement" or candidate.encoding in WITHIN_QUERIES)
        ):
            raise ValueError(
                "candidates: hops must be at least 0, and columns over links go with neither"
                f" agreement nor {' nor '.join(WITHIN_QUERIES)}, got {candidate!r}."
            )
        if candidate.beside and (
            not candidate.hops or candidate.second_order or candidate.relevance
        ):
            raise ValueError(
                "candidates: beside=True needs hops of at least 1, and goes with neither"
                f" second_order nor relevance, got {candidate!r}."
            )


def default_candidates(
    *,
    is_csr: bool,
    has_queries: bool,
    view_kernels: Sequence[str] = (),
    kinds: Sequence[str] = (),
    agree: bool = False,
    links_prior: float = 0.0,
    identity: bool = False,
    per_column: bool = False,
) -> list[Candidate]:
    """The candidates of AutoRanker and AutoRegressor where none are given.

    Parameters
    ----------
    is_csr : whether features are CSR
    has_queries : whether encodings within queries can be had
    view_kernels : the declared kernel of every view; "rbf", which is the default of a View, stands
        for several kernels
    kinds : "text", "vector" or "table" (numbers and categories) for every view, where views were
        found by their kinds
    agree : whether there are unscored rows, for views to agree on and for similarities of the
        second order
    links_prior : of links alone, and of links beside own columns, over that of own columns; 0
        without links
    identity : whether there is a column that says which item a row is
    per_column : whether one width per column may be learned
    """
    if kinds:
        candidates = _candidates_by_kinds(kinds, has_queries=has_queries, agree=agree)
    else:
        candidates = _own_candidates(
            is_csr=is_csr, has_queries=has_queries, view_kernels=view_kernels, agree=agree
        )
        if per_column and not is_csr and not view_kernels:
            candidates += [
                Candidate(encoding, kernel, width, per_column=True)
                for encoding in (STANDARD, RANKS)
                for kernel, width in WIDTHS_PER_COLUMN
            ]
    if links_prior:
        candidates += [
            replace(candidate, hops=hops, beside=beside)
            for candidate in candidates
            if _travels(candidate)
            for hops in HOPS
            for beside in (False, True)
            if not (beside and candidate.second_order)
        ]
    if kinds or links_prior:
        candidates = _balanced(candidates, links_prior, by_views=len(kinds) > 0)
    return candidates + _item_candidates(candidates, n_views=len(kinds)) if identity else candidates


def _item_candidates(candidates: Sequence[Candidate], n_views: int) -> list[Candidate]:
    """Candidates with one effect per item: alone, and beside those of the given ones that see all
    columns.

    Columns, item effects beside columns and item effects alone have the same prior.
    """
    total = sum(candidate.prior for candidate in candidates)
    whole = [
        candidate
        for candidate in candidates
        if candidate.encoding == STANDARD
        and not (candidate.relevance or candidate.second_order or candidate.hops)
        and not candidate.per_column
        and (
            candidate.kernel == "linear"
            or (candidate.kernel == "rbf" and candidate.width in WIDTHS_BESIDE_ITEMS)
        )
        and (candidate.views in ("all", "sum") or (candidate.views == "one" and n_views == 1))
    ]
    beside = [
        replace(candidate, identity=SHARE_OF_ITEMS, prior=total / len(whole)) for candidate in whole
    ]
    return [Candidate(identity=1.0, prior=total), *beside]


def _balanced(
    candidates: Sequence[Candidate], links_prior: float, *, by_views: bool
) -> list[Candidate]:
    """Candidates whose priors do not depend on how many of their family there are.

    Families see the same views in the same way: by own columns, over links alone, over links beside
    own columns.
    """
    families = [(c.of if by_views else (), c.hops > 0, c.beside) for c in candidates]
    sizes = Counter(families)
    return [
        replace(candidate, prior=(links_prior if candidate.hops else 1.0) / sizes[family])
        for candidate, family in zip(candidates, families, strict=True)
    ]


def _travels(candidate: Candidate) -> bool:
    """Whether there is a candidate over links beside this one."""
    if (
        candidate.views == "agreement"
        or candidate.relevance
        or candidate.per_column
        or candidate.encoding in (*WITHIN_QUERIES, RANKS)
    ):
        return False
    return candidate.kernel not in WIDE_KERNELS or candidate.width in WIDTHS_OVER_LINKS


def _own_candidates(
    *, is_csr: bool, has_queries: bool, view_kernels: Sequence[str], agree: bool
) -> list[Candidate]:
    """The candidates that see their own columns."""
    encodings = (
        [STANDARD, AS_GIVEN]
        if is_csr
        else [STANDARD, RANKS, *([QUERY_RANKS] if has_queries else [])]
    )
    families: tuple[str, ...] = KERNELS_OF_TEXT if is_csr else KERNELS_OF_NUMBERS
    if not view_kernels:
        plain = [
            Candidate(encoding, kernel, width)
            for encoding in encodings
            for kernel in families
            for width in _widths(kernel, WIDTHS_WITHIN_QUERIES if has_queries else WIDTHS)
        ]
        relevant = [
            Candidate(STANDARD, kernel, width, relevance=True)
            for kernel in KERNELS_OF_NUMBERS
            for width in _widths(kernel, RELEVANCE_WIDTHS)
        ]
        if not is_csr:
            return plain + relevant + (_candidates_of_both() if has_queries else [])
        return plain + [
            Candidate(encoding, "cosine", second_order=True) for encoding in encodings if agree
        ]
    declared = {kernel for kernel in view_kernels if kernel != "rbf"}
    if "precomputed" in declared:  # which stands for all kernels of the user's own
        encodings, declared = [OWN_KERNEL], {"linear"}
    if len(declared) == 1 and "rbf" not in view_kernels:
        families = tuple(declared)
        if "linear" in declared or "cosine" in declared:
            unranked = (STANDARD, AS_GIVEN, OWN_KERNEL)
            encodings = [encoding for encoding in encodings if encoding in unranked]
    if encodings == [OWN_KERNEL] and len(view_kernels) == 1:
        return [Candidate(OWN_KERNEL, "linear")]
    candidates = []
    for encoding in encodings:
        for kernel in families:
            for width in _widths(kernel, WIDTHS_OF_VIEWS):
                candidates.append(Candidate(encoding, kernel, width))
                candidates.append(Candidate(encoding, kernel, width, "sum"))
                candidates += [
                    Candidate(encoding, kernel, width, "one", (view,))
                    for view in range(len(view_kernels))
                ]
                if kernel in PRODUCT_KERNELS:
                    candidates.append(Candidate(encoding, kernel, width, "product"))
            if agree and kernel == "cosine":
                candidates.append(Candidate(encoding, kernel, views="sum", second_order=True))
                candidates += [
                    Candidate(encoding, kernel, views="one", of=(view,), second_order=True)
                    for view in range(len(view_kernels))
                ]
            if agree and len(view_kernels) > 1 and encoding != QUERY_RANKS:
                candidates += [
                    Candidate(encoding, kernel, width, "agreement", strength=strength)
                    for width in _widths(kernel, (1.0, 4.0))
                    for strength in STRENGTHS
                ]
    return candidates


def _candidates_of_both() -> list[Candidate]:
    """Candidates that see what columns are over all rows beside their ranks within queries."""
    plain = [
        Candidate(BOTH_RANKS, kernel, width)
        for kernel, widths in WIDTHS_OF_BOTH.items()
        for width in widths
    ]
    return plain + [
        Candidate(BOTH_RANKS, "laplacian", width, relevance=True)
        for width in RELEVANCE_WIDTHS_OF_BOTH
    ]


def _candidates_by_kinds(
    kinds: Sequence[str], *, has_queries: bool, agree: bool
) -> list[Candidate]:
    """Candidates of every kind of columns alone, of all texts and vectors, and of everything."""
    tables = [number for number, kind in enumerate(kinds) if kind == "table"]
    others = [number for number, kind in enumerate(kinds) if kind != "table"]
    encodings = [STANDARD, RANKS, *([QUERY_RANKS] if has_queries else [])]
    candidates = [
        Candidate(encoding, kernel, width, "one", (number,))
        for number in tables
        for encoding in encodings
        for kernel in KERNELS_OF_NUMBERS
        for width in _widths(kernel, WIDTHS_OF_KINDS)
    ]
    several = [tuple(others)] if len(others) > 1 else []
    for subset in [*((number,) for number in others), *several]:
        combination: Combination = "one" if len(subset) == 1 else "sum"
        candidates += [
            Candidate(STANDARD, kernel, width, combination, subset)
            for kernel in KERNELS_OF_TEXT
            for width in _widths(kernel, WIDTHS_OF_KINDS)
        ]
        if agree:
            candidates.append(
                Candidate(STANDARD, "cosine", views=combination, of=subset, second_order=True)
            )
    if tables:
        candidates += [
            Candidate(encoding, kernel, width, combination)
            for encoding in encodings
            for kernel in KERNELS_OF_NUMBERS
            for width in _widths(kernel, WIDTHS_OF_KINDS)
            for combination in ("sum", "product")
            if combination == "sum" or kernel in PRODUCT_KERNELS
        ]
    return candidates


def _widths(kernel: str, widths: tuple[float, ...]) -> tuple[float, ...]:
    return widths if kernel in WIDE_KERNELS else (1.0,)
