"""What `corank fit` learns from: files as features, scores or comparisons, and queries, checked in the words of their
columns.

`--method auto`: which learner a table gets, and why.

What `corank fit` tells about the model it has fitted.

`corank fit`: a table and the name of its score column, or a table of comparisons beside it → a model file.
"""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import typer
from numpy.typing import NDArray
from rich.text import Text

from corank._messages import count, held_out_error
from corank.cli.columns import feature_columns, note_ids
from corank.cli.comparisons import FIRST, LOSER, SECOND, WINNER, NamedItems, PairColumns, ReadPairs, joined, read_pairs
from corank.cli.console import command, facts, note, show, size_of, typed, working
from corank.cli.files import DASH, check_model_output, check_report_output, given, given_too, svmlight_columns, title_of
from corank.cli.options import (
    AGREEING,
    AUTO,
    BY_EVIDENCE,
    LEARNERS,
    MANY_ROWS,
    RANKERS,
    TABLE,
    WHO_BEAT_WHOM,
    AsJson,
    Drop,
    Effect,
    Features,
    Force,
    IdLeftOut,
    MethodName,
    Quiet,
    Read,
    Shuffle,
    View,
    Weighting,
    check_goes_with,
    check_views,
    check_what_to_learn_from,
    is_streamed,
    number_or_word,
    own_options,
)
from corank.cli.show import columns_table, is_no_better_than_coins, widths_table
from corank.describe import evidence_in_words, evidence_of, names_of_features, plain_gamma, queries_without_scores
from corank.encoder import TableEncoder
from corank.kernels import WITH_GAMMA
from corank.rows import encode_queries
from corank.tables import TableError, column, is_number, query_column, read_table, score_column

TUNED_UP_TO = 1_500  # scored rows or comparisons for which seven kernel widths are tried in some seconds


@dataclass(frozen=True)
class ComparisonFile:
    """A second table, of comparisons: what is in it and what its columns are called."""

    file: Path
    columns: PairColumns
    pairs: ReadPairs


@dataclass(frozen=True)
class TrainingTable:
    """A table to learn from.

    Attributes
    ----------
    columns : names of the score, query and id columns, None where there is none
    features : (n_rows, n_features)
    scores : (n_rows,), NaN where unscored; None where comparisons take their place
    queries : (n_rows,) numbers of the queries, or None
    names : what the id column calls the rows, or None
    compared : the comparisons, or None
    """

    file: Path
    columns: dict[str, str | None]
    encoder: TableEncoder
    features: NDArray[np.float64]
    scores: NDArray[np.float64] | None
    queries: NDArray[np.int64] | None
    names: Sequence[str] | None = None
    compared: ComparisonFile | None = None

    @property
    def n_scored(self) -> int:
        """Number of rows with a score, or in a comparison."""
        if self.compared is not None:
            return self.compared.pairs.n_items
        assert self.scores is not None
        return int(np.count_nonzero(~np.isnan(self.scores)))

    @property
    def n_unscored(self) -> int:
        """Number of the other rows."""
        return len(self.features) - self.n_scored

    @property
    def size(self) -> str:
        """What there is to learn from, in words."""
        if self.compared is not None:
            return count(self.compared.pairs.number, "comparison")
        return count(self.n_scored, "scored row")

    @property
    def remembered(self) -> dict[str, str | int | None]:
        """What a model file keeps of the table."""
        queries = None if self.queries is None else len(np.unique(self.queries))
        kept = {**self.columns, "rows": len(self.features), "scored": self.n_scored, "queries": queries}
        if self.compared is None:
            return kept
        return {**kept, **asdict(self.compared.columns), "comparisons": self.compared.pairs.number}

    def automatic_gamma(self, kernel: str) -> str:
        """How to choose the kernel width where nobody says and held-out errors choose."""
        size = self.n_scored if self.compared is None else max(self.n_scored, len(self.compared.pairs.winners))
        return "tune" if kernel in WITH_GAMMA and size <= TUNED_UP_TO else "scale"

    def on(self, device: str | None) -> TrainingTable:
        """The same with its numbers on a device."""
        if device is None:
            return self
        from torch import as_tensor

        return replace(self, features=as_tensor(np.asarray(self.features), device=device))

    def fit(self, model: Any) -> None:
        """Fit a model on it."""
        if self.compared is not None:
            model.fit_comparisons(self.features, **self.compared.pairs.given(), qid=self.queries)
        else:
            model.fit(self.features, self.scores, qid=self.queries)

    def check_scores(self, *, ranks: bool) -> None:
        """Refuse scores from which nothing can be learned: where it `ranks`, two rows of a query must differ."""
        if self.scores is None:
            return
        score, query = self.columns["score"], self.columns["query"] if ranks else None
        if self.n_scored == 0:
            raise TableError(f"score column {score!r} of {self.file} is empty: there is nothing to learn from")
        if self.n_scored == 1:
            raise TableError(f"score column {score!r} of {self.file} has a single score: at least two are needed")
        queries = np.zeros(len(self.scores)) if query is None or self.queries is None else self.queries
        scored = ~np.isnan(self.scores)
        order = np.lexsort((self.scores[scored], queries[scored]))
        compete = np.diff(queries[scored][order]) == 0
        if not compete.any():
            raise TableError(
                f"no two rows of one {query!r} have a score in {score!r}, so none can be compared: "
                "leave out --query to compare all rows"
            )
        if not np.any(compete & (np.diff(self.scores[scored][order]) != 0)):
            within = "" if query is None else f" within every {query!r}"
            raise TableError(f"all scores in {score!r} are the same{within}: there is nothing to learn")


@dataclass(frozen=True)
class TrainingSource:
    """What to read.

    Attributes
    ----------
    file : path of a table of items
    items : path of a table that describes the items which `file` scores, or None where that does it
    columns : names of the score, query and id columns, None where there is none
    wanted, dropped : names and patterns of features, as in `feature_columns`
    comparisons : path of a table of comparisons, which takes the place of a score column, or None
    pairs : names of its columns
    with_margins : whether the method learns from margins
    notes_margins : whether to say so where it could and there are none
    """

    file: Path
    items: Path | None
    columns: dict[str, str | None]
    wanted: Sequence[str]
    dropped: Sequence[str]
    comparisons: Path | None
    pairs: PairColumns
    with_margins: bool
    notes_margins: bool = False


def read_training(source: TrainingSource, doing: Callable[[str], None]) -> TrainingTable:
    """Read what there is to learn from and encode the features; `doing` is told what is being done."""
    columns, file = source.columns, source.file
    score, query, id_column = columns["score"], columns["query"], columns["id"]
    text = [name for name in (query, id_column) if name is not None]
    table = read_table(file, text=text)
    if source.items is not None:
        assert id_column is not None
        table = joined(table, file, source.items, id_column, text)
    if query is not None and source.comparisons is not None:
        _check_who_answered(table, file, source.comparisons, query)
    scores = None if score is None else score_column(table, score)
    queries = None if query is None else np.asarray(encode_queries(query_column(table, query), len(table))[0])
    compared = None if source.comparisons is None else _read_comparisons(source, table, queries)
    names_of_rows = None if id_column is None else [str(name) for name in column(table, id_column, "id").to_pylist()]
    names = feature_columns(table, columns, source.wanted, source.dropped)
    doing(f"encoding {count(len(table), 'row')}")
    encoder = TableEncoder()
    features = encoder.fit_transform(table.select(names))
    note_ids(table, [name for name in names if name not in encoder.dropped_])
    return TrainingTable(file, columns, encoder, features, scores, queries, names_of_rows, compared)


def _check_who_answered(table: pa.Table, file: Path, comparisons: Path, query: str) -> None:
    if query not in table.column_names and query in read_table(comparisons).column_names:
        raise TableError(
            f"column {query!r} is in {comparisons}, but --query must be a column of the items, {file}: it says which items "
            "compete; who answered cannot be learned from"
        )


def _read_comparisons(source: TrainingSource, table: pa.Table, queries: NDArray[np.int64] | None) -> ComparisonFile:
    assert source.comparisons is not None
    item, query = source.columns["id"], source.columns["query"]
    assert item is not None
    items = NamedItems(source.file, item, table)
    pairs = read_pairs(
        source.comparisons,
        items,
        source.pairs,
        with_margins=source.with_margins,
        query=None if query is None or queries is None else (query, queries),
    )
    names = replace(source.pairs, winner=source.pairs.winner or WINNER, loser=source.pairs.loser or LOSER)
    if source.notes_margins and names.margin is None:
        _note_margins(source.comparisons, names)
    return ComparisonFile(source.comparisons, names, pairs)


def _note_margins(file: Path, names: PairColumns) -> None:
    """Say that all wins count the same, and which columns could say by how much."""
    table, known = read_table(file), {names.winner, names.loser, names.count, FIRST, SECOND}
    others = [one.name for one in table.schema if one.name not in known and is_number(one.type)]
    could = f"; --margin {shlex.quote(others[0])} would take column {others[0]!r}" if others else ""
    note(f"no --margin: every win counts as 1{could}")


CANDIDATE_ROWS = 200  # that span each function while methods are compared, which then takes seconds
CHECKING = "checking whether unscored rows help"
UNSCORED = "unscored rows"
WORDS = {
    "supervised": "one model on all columns, from the scored rows alone",
    "average": "the mean of one model a view, from the scored rows alone",
    "agreement": "views that agree on unscored rows",
}

SHORT = {name: words.removesuffix(", from the scored rows alone") for name, words in WORDS.items()}


@dataclass(frozen=True)
class Asked:
    """What decides about the method before any row is read.

    ranks : with queries or comparisons; else scores are predicted
    compared : from comparisons
    views : whether views or more unscored rows are given
    smoothing : whether alpha is
    streamed : whether rows are read in passes
    effect : whether to find out if unscored rows helped
    """

    ranks: bool
    compared: bool
    views: bool
    smoothing: bool
    streamed: bool
    effect: bool = True

    @property
    def plain(self) -> MethodName:
        """The learner for scored rows alone."""
        return MethodName.rankrls if self.ranks else MethodName.rls

    @property
    def agreeing(self) -> MethodName:
        """The learner for unscored rows too."""
        return MethodName.corankrls if self.ranks else MethodName.corls

    def settled(self, method: MethodName) -> MethodName:
        """The method, `auto` only where the rows decide."""
        if method is not AUTO:
            return method
        found = self.agreeing if self.views else self.plain
        if self.streamed:
            other = "" if self.views else f"; --method {self.agreeing} learns from unscored rows too"
            note(f"rows are read in passes, so no methods are compared: this is --method {found}{other}")
            return found
        return found if self.compared or self.smoothing else AUTO


def fitted(
    training: TrainingTable,
    method: MethodName,
    asked: Asked,
    options: dict[str, Any],
    views: Any,
    doing: Callable[[str], None],
) -> tuple[Any, dict[str, Any] | None]:
    """A model of rows in memory and, where methods were compared, what came of it."""
    from corank.views import random_bases

    training.check_scores(ranks=(asked.plain if method is AUTO else method) in RANKERS)
    found = None
    if method is AUTO and not asked.views and (not training.n_unscored or isinstance(views, random_bases)):
        method = asked.plain  # nothing to agree on, or a single column that cannot be divided
    if method is AUTO:
        doing(f"comparing ways to learn from {training.size}")
        model, found = _compared(training, asked, options, views, doing)
        if model is None:
            method = asked.plain
    if method is not AUTO:
        model = _one(training, method, options, views, doing)
        if found is None:
            model = with_effect(model, doing, wanted=asked.effect)
    model.encoder_ = training.encoder
    model.table_ = {**training.remembered, **({} if found is None else _remembered(found, ranks=asked.ranks))}
    if training.names is not None and hasattr(model, "atoms_"):
        model.name_atoms([training.names[row] for row in model.atoms_])
    return model, found


def _one(
    training: TrainingTable, method: MethodName, options: dict[str, Any], views: Any, doing: Callable[[str], None]
) -> Any:
    from corank import learners

    if options["gamma"] == "auto":
        gamma = training.automatic_gamma(options["kernel"])
        options = {**options, "gamma": "tune" if method in BY_EVIDENCE else "scale" if method in AGREEING else gamma}
    if method in AGREEING:
        options = {**options, "views": views}
    model = getattr(learners, LEARNERS[method])(**options)
    doing(f"fitting {type(model).__name__} on {training.size}")
    training.fit(model)
    return model


def with_effect(model: Any, doing: Callable[[str], None], *, wanted: bool) -> Any:
    """The model with whether unscored rows helped, which takes several fits, or one that does not look for it."""
    if not wanted:
        return model._at_a_glance()
    if hasattr(type(model), "unscored_effect_"):
        doing(CHECKING)
        _ = model.unscored_effect_  # is kept once found
    return model


def _compared(
    training: TrainingTable, asked: Asked, options: dict[str, Any], views: Any, doing: Callable[[str], None]
) -> tuple[Any, dict[str, Any]]:
    """The best of the ways that `AutoRanker` or `AutoRegressor` compares, None where that is the plain one, which is
    then fitted with all its rows as basis; and what each came to."""
    from corank.auto import AutoRanker, AutoRegressor

    options = {"basis": min(CANDIDATE_ROWS, len(training.features)), **options, "views": views}
    if options["gamma"] == "auto":
        options["gamma"] = "scale"
    auto = (AutoRanker if asked.ranks else AutoRegressor)(random_state=0, **options)
    training.fit(auto)
    auto = with_effect(auto, doing, wanted=asked.effect)
    effect = auto.unscored_effect_
    found = {
        "chosen": auto.chosen_,
        "candidates": [_without_nan(asdict(candidate)) for candidate in auto.candidates_],
        "unscored_effect": None if effect is None else asdict(effect),
    }
    return None if auto.chosen_ == "supervised" else auto.best_estimator_._at_a_glance(), found


def _remembered(found: dict[str, Any], *, ranks: bool) -> dict[str, str]:
    """What a model file keeps of a comparison: words, for `corank inspect`."""
    effect = found["unscored_effect"]
    kept = {"auto_chosen": WORDS[found["chosen"]], "auto_reason": reason_of(found)}
    if effect is not None:
        kept |= {"auto_verdict": effect["verdict"], "auto_unscored": effect_in_words(effect, ranks=ranks)[UNSCORED]}
    return kept


def _without_nan(candidate: dict[str, Any]) -> dict[str, Any]:
    return {name: None if value != value else value for name, value in candidate.items()}  # noqa: PLR0124


def in_words(found: dict[str, Any]) -> dict[str, str]:
    """What came of a comparison, for people."""
    candidates = found["candidates"]
    of = f", the best of {count(len(candidates), 'way')} to learn" if candidates else ", as there are few scores"
    return {"chosen": f"{WORDS[found['chosen']]}{of}"}


def reason_of(found: dict[str, Any]) -> str:
    """What was compared and why the chosen way was taken."""
    candidates = found["candidates"]
    if not candidates:
        return "nothing, as there are too few scores: the simplest model was taken"
    errors = [f"{_spread(one['error'], one['standard_error'])} for {SHORT[one['name']]}" for one in candidates]
    chosen = next(one for one in candidates if one["name"] == found["chosen"])
    why = "no other is clearly better than the first"
    if chosen["gain"] is not None:
        gain = _spread(chosen["gain"], chosen["gain_error"])
        why = f"{SHORT[chosen['name']]}: clearly better than {SHORT[chosen['beside']]}, by {gain}"
    return f"held-out error {', '.join(errors)}; {why}"


def _spread(value: float, error: float | None) -> str:
    return f"{value:.3g}" + ("" if error is None else f" ± {error:.2g}")


def effect_in_words(effect: dict[str, Any] | None, *, ranks: bool) -> dict[str, str]:
    """Whether unscored rows helped; rankers are judged by pairs, others by squared errors."""
    if effect is None:
        return {}
    without, with_ = effect["error_without"], effect["error_with"]
    shares = f"{without:.1%} of held-out pairs in the wrong order without them, {with_:.1%} with them"
    squares = f"held-out squared error {without:.4g} without them, {with_:.4g} with them"
    gap = f"{effect['difference']:+.2%} ± {effect['standard_error']:.2%}"
    if not ranks:
        gap = f"{effect['difference']:+.2g} ± {effect['standard_error']:.2g}"
    return {UNSCORED: f"{effect['verdict']}: {shares if ranks else squares} (gain {gap})"}


WORTH_IT = 0.98  # of the error of a constant: a model above that has learned nothing
RANKING = ("RankRLS", "CoRankRLS")  # of which unscored rows are judged by pairs
SIZES = ("alpha", "agreement", "n_components", "n_atoms")


def result_of(model: Any, out: Path, seconds: float, compared: dict[str, Any] | None = None) -> dict[str, Any]:
    """Everything that is worth knowing, as JSON has it; `compared` is what `--method auto` found."""
    import numpy as np

    path = getattr(model, "path_", None)
    several = isinstance(model.coef_, list)  # views: the kernel of the first stands for all
    kernel, gamma = (model._kernels[0], model.gamma_[0]) if several else (model._kernel, plain_gamma(model.gamma_))
    gammas = 1 if path is None or gamma is None else len(np.unique(path.gamma))  # NaN where views have their own
    return {
        "model": str(out),
        "method": type(model).__name__,
        **model.table_,
        "queries_without_scores": queries_without_scores(model),
        **({} if compared is None else {"auto": compared}),
        **_effect(model, compared),
        "columns": [] if model.encoder_ is None else model.encoder_.summary(),
        "features": model.n_features_in_,
        **({"feature_names": names_of_features(model)} if isinstance(gamma, list) else {}),
        "kernel": kernel.name,
        "gamma": gamma,
        "gamma_chosen": None if gamma is None else model.gamma if isinstance(model.gamma, str) else "given",
        "gammas_tried": gammas,
        "basis": sum(map(len, model.coef_)) if several else len(model.coef_),
        **{name: getattr(model, f"{name}_") for name in SIZES if hasattr(model, f"{name}_")},
        **evidence_of(model),
        "tried": 1 if path is None else len(path.error) // gammas,
        "held_out_error": None if path is None else _finite(path.error[path.best]),
        "held_out_standard_error": None if path is None else _finite(path.standard_error[path.best]),
        "held_out_constant": None if path is None else _finite(path.constant),
        "seconds": round(seconds, 3),
    }


def _effect(model: Any, compared: dict[str, Any] | None) -> dict[str, Any]:
    """Whether unscored rows helped, where that was asked."""
    if compared is not None:
        return {"unscored_effect": compared.pop("unscored_effect")}
    effect = getattr(model, "unscored_effect_", None)
    return {} if effect is None else {"unscored_effect": asdict(effect)}


def _finite(value: float) -> float | None:
    return float(value) if value == value else None  # noqa: PLR0124


def note_no_better(result: dict[str, Any]) -> None:
    """Say so where the model has learned nothing that helps on rows it has not seen."""
    error, constant = result["held_out_error"], result["held_out_constant"]
    by_errors = error is not None and constant is not None and error > WORTH_IT * constant
    if not by_errors and not is_no_better_than_coins(result):
        return
    about = "who wins" if result.get("comparisons") else repr(result["score"])
    reasons = f"perhaps the features say nothing about {about}"
    if result["query"] is not None:
        reasons += (
            f", what is good differs from {result['query']!r} to {result['query']!r}, as all share one function, or too few "
            f"of {result['query']!r} have several different scores to tell"
        )
    note(f"held out, the model is no better than {'a constant' if by_errors else 'coin tosses'}: {reasons}")


# ---- what is shown


def show_outcome(result: dict[str, Any], file: Path, items: Path | None, comparisons: Path | None, out: Path) -> None:
    """The result as tables."""
    pairs = {**_facts(result, comparisons), "saved as": f"{out} ({size_of(out)})"}
    parts = [facts(f"{result['method']} fitted on {title_of(file)}", pairs)]
    if result["columns"]:
        parts.append(columns_table(result["columns"]))
    if isinstance(result["gamma"], list):
        parts += widths_table(result["gamma"], result["feature_names"])
    show(*parts, *_next(result, items or file, out, joined=items is not None))


def write_page(
    model: Any, result: dict[str, Any], file: Path, comparisons: Path | None, report: Path, *, force: bool
) -> None:
    """The result as a page."""
    from corank.report import write_model_report

    write_model_report(
        model,
        report,
        title=f"{result['method']} fitted on {title_of(file)}",
        summary=_facts(result, comparisons),
        columns=result["columns"],
        command=typed("fit"),
        overwrite=force,
    )


def _facts(result: dict[str, Any], comparisons: Path | None) -> dict[str, str]:
    """What went in and how good the model is."""
    used = [column for column in result["columns"] if not column["treatment"].startswith("dropped")]
    pairs = _rows(result, comparisons)
    if result["queries"] is not None:
        what = f"all share one scoring function; {result['query']} says which rows compete and is not a feature"
        others = result["queries_without_scores"]
        scored = f", {result['queries'] - others:,} of them with scores" if others else ""
        pairs["queries"] = f"{result['queries']:,} ({result['query']}){scored}: {what}"
    if "auto" in result:
        pairs |= in_words(result["auto"])
    return pairs | {
        "features": count(result["features"], "number") + (f" from {count(len(used), 'column')}" if used else ""),
        "kernel": result["kernel"] + _gamma(result),
        **_size(result),
        **effect_in_words(result.get("unscored_effect"), ranks=result["method"] in RANKING),
        "time": f"{result['seconds']:.1f} s",
    }


def _next(result: dict[str, Any], file: Path, out: Path, *, joined: bool) -> list[Text]:
    lines = [f"corank rank {out} NEW_FILE --out ranked.csv"]
    if "log_evidence" in result:
        nothing_open = result["score"] is not None and result["scored"] == result["rows"]
        unknown = (nothing_open and not joined) or file == DASH
        lines.append(f"corank suggest {out} {'NEW_FILE' if unknown else file} --out questions.csv")
    shown = [command(line, "  or: " if at else "Next: ") for at, line in enumerate(lines)]
    if result.get("comparisons") and "log_evidence" not in result:
        shown.append(
            Text("--method preference also says how sure it is, and what to ask next (corank suggest)", style="dim")
        )
    return shown


def _rows(result: dict[str, Any], comparisons: Path | None) -> dict[str, str]:
    rows, scored = result["rows"], result["scored"]
    if comparisons is None:
        return {"rows": f"{rows:,}, {scored:,} of them scored" if scored < rows else f"{rows:,}, all scored"}
    many = f"{rows:,}, {scored:,} of them compared" if scored < rows else f"{rows:,}, all compared"
    return {"items": many, "comparisons": f"{result['comparisons']:,} of {title_of(comparisons)}"}


def _size(result: dict[str, Any]) -> dict[str, str]:
    """How flexible the model is, and how good: alpha, components or atoms and the held-out error, or the evidence."""
    if "log_evidence" in result:
        return evidence_in_words(result, compared=bool(result.get("comparisons")))
    tried = _best_of(result["tried"])
    error = held_out_error(result["held_out_error"], result["held_out_standard_error"], result["held_out_constant"])
    if "n_atoms" in result:
        size = {"atoms": f"{result['n_atoms']}{tried}; `corank inspect` lists them"}
    elif "n_components" in result:
        size = {"components": f"{result['n_components']}{tried}"}
    else:
        size = {"alpha": f"{result['alpha']:.3g}{tried}"} if "alpha" in result else {}
    if "agreement" in result:
        agreement = result["agreement"]
        size["agreement"] = f"{agreement:.3g}, on unscored rows" if agreement else "0: unscored rows play no part"
    return {**size, "held-out error": error}


def _gamma(result: dict[str, Any]) -> str:
    gamma, chosen = result["gamma"], result["gamma_chosen"]
    if gamma is None:
        return ""
    if isinstance(gamma, list):
        return f", a gamma for each feature from {min(gamma):.3g} to {max(gamma):.3g}, by largest evidence"
    if "log_evidence" in result and chosen == "tune":
        return f", gamma {gamma:.3g} (tune, by largest evidence)"
    how = {"tune": f" (tune{_best_of(result['gammas_tried'])})", "scale": " (scale)"}
    return f", gamma {gamma:.3g}" + how.get(chosen, _best_of(result["gammas_tried"]))


def _best_of(tried: int) -> str:
    return f", the best of {tried}" if tried > 1 else ""


SETTINGS = "How it learns"  # a panel of the help


def fit(
    context: typer.Context,
    file: Annotated[
        Path,
        typer.Argument(
            help=f"Table of items: {TABLE}. A folder or pattern of such files need not fit into memory.",
            show_default=False,
        ),
    ],
    out: Annotated[Path, typer.Option(help="Where to save the model, by custom NAME.corank.", show_default=False)],
    score: Annotated[
        str | None, typer.Option(help="Column with the scores; empty = unscored.", show_default=False)
    ] = None,
    query: Annotated[
        str | None,
        typer.Option(
            help="Column that says which rows compete with each other; all queries share one scoring function.",
            show_default=False,
        ),
    ] = None,
    method: Annotated[
        MethodName,
        typer.Option(
            metavar="NAME",
            help="auto learns from unscored rows too where the scores show that it helps; by itself it ranks with --query "
            "or --comparisons and predicts scores without. rankrls, kpcrank (for noisy scores) and pursuit (a handful of "
            "items) rank; rls, kpcr and matching predict scores; corankrls and corls learn from unscored rows; preference "
            "and difference (from who wins, or by how much) say how sure they are and what to ask next.",
        ),
    ] = MethodName.auto,
    features: Features = None,
    drop: Drop = None,
    id: IdLeftOut = None,
    items: Annotated[
        Path | None,
        typer.Option(
            help="Table that describes the items which FILE scores, by the names in --id.", show_default=False
        ),
    ] = None,
    kernel: Annotated[
        str, typer.Option(rich_help_panel=SETTINGS, help="How alike two rows are: rbf, linear, poly, cosine, …")
    ] = "rbf",
    gamma: Annotated[
        str,
        typer.Option(
            rich_help_panel=SETTINGS,
            help="Kernel width: tune, scale or a number. auto is tune for up to 1,500 scored rows, else scale. "
            "preference and difference also know columns: one width for each.",
        ),
    ] = "auto",
    basis: Annotated[
        str | None,
        typer.Option(
            rich_help_panel=SETTINGS,
            help="Rows that span the model: auto, all, features or a number.",
            show_default="auto",
        ),
    ] = None,
    alpha: Annotated[
        str | None,
        typer.Option(
            rich_help_panel=SETTINGS,
            help="Strength of smoothing: tune, a number, or several to try.",
            show_default="tune",
        ),
    ] = None,
    components: Annotated[
        str | None,
        typer.Option(
            rich_help_panel=SETTINGS, help="Number of components of kpcrank and kpcr, or tune.", show_default="tune"
        ),
    ] = None,
    atoms: Annotated[
        str | None,
        typer.Option(
            rich_help_panel=SETTINGS,
            help="Number of items that make up a pursuit's model, or tune.",
            show_default="tune",
        ),
    ] = None,
    amplitude: Annotated[
        str | None,
        typer.Option(
            rich_help_panel=SETTINGS,
            help="Variance of the scores in preference and difference, or tune.",
            show_default="tune",
        ),
    ] = None,
    noise: Annotated[
        str | None,
        typer.Option(
            rich_help_panel=SETTINGS, help="Variance of the noise in difference, or tune.", show_default="tune"
        ),
    ] = None,
    device: Annotated[
        str | None,
        typer.Option(
            rich_help_panel=SETTINGS, help="Where to compute: cuda for a GPU (needs PyTorch).", show_default="CPU"
        ),
    ] = None,
    weighting: Annotated[
        Weighting | None,
        typer.Option(
            rich_help_panel=SETTINGS, help="What counts the same: items (size), pairs (unit) or queries (query)."
        ),
    ] = None,
    comparisons: Annotated[
        Path | None,
        typer.Option(
            help="Table of who beat whom, by the names in --item, in place of --score; also the answered questions of "
            "`corank suggest`. A tie: two rows, a win for each, or with difference a margin of 0.",
            show_default=False,
            rich_help_panel=WHO_BEAT_WHOM,
        ),
    ] = None,
    winner: Annotated[
        str | None, typer.Option(help="Its column of winners.", show_default="winner", rich_help_panel=WHO_BEAT_WHOM)
    ] = None,
    loser: Annotated[
        str | None, typer.Option(help="Its column of losers.", show_default="loser", rich_help_panel=WHO_BEAT_WHOM)
    ] = None,
    margin: Annotated[
        str | None,
        typer.Option(
            help="Its column that says by how much, 0 = a tie.", show_default=False, rich_help_panel=WHO_BEAT_WHOM
        ),
    ] = None,
    times: Annotated[
        str | None,
        typer.Option(
            "--count", help="Its column that says how often.", show_default=False, rich_help_panel=WHO_BEAT_WHOM
        ),
    ] = None,
    view: View = None,
    unscored: Annotated[
        str | None,
        typer.Option(
            help="More rows without scores: file, folder or pattern (corankrls, corls).",
            show_default=False,
            rich_help_panel=MANY_ROWS,
        ),
    ] = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            help="Folder for what is done so far: the same command goes on from there.",
            show_default=False,
            rich_help_panel=MANY_ROWS,
        ),
    ] = None,
    dask: Annotated[
        str | None,
        typer.Option(
            help="Address of a Dask scheduler whose workers do the work.",
            show_default=False,
            rich_help_panel=MANY_ROWS,
        ),
    ] = None,
    shuffle_queries: Shuffle = False,
    effect: Effect = True,
    report: Annotated[
        Path | None, typer.Option(help="Also write a page about the model, NAME.html.", show_default=False)
    ] = None,
    format: Read = None,
    force: Force = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Learn from a table and save the model.

    All queries share one scoring function, learned from the features.
    The query column says which rows compete and is not a feature.
    To learn one person's taste, fit on that person's rows, without --query.
    In place of scores, --comparisons takes a second table: who beat whom.
    """
    pairs = {"winner": winner, "loser": loser, "margin": margin, "count": times}
    source_file = given(context, file, format)
    score, query = svmlight_columns(source_file, score, query, compared=comparisons is not None)
    check_what_to_learn_from(score, id, items, comparisons, pairs, method)
    items_file, comparisons_file = given_too(context, items), given_too(context, comparisons)
    for read in (source_file, items_file, comparisons_file):
        check_model_output(out, read, force=force)
    if report is not None:
        check_report_output(report, source_file, force=force)
    if kernel == "precomputed":
        raise ValueError("--kernel precomputed needs a kernel matrix, not a table: use Python for it")
    passes = {"unscored": unscored, "checkpoint": checkpoint, "dask": dask}
    for name, value in {"view": view or None, **passes}.items():
        if value is not None:
            check_goes_with(name, method)
    check_views(view or [])
    if device is not None:
        from corank._arrays import check_device

        check_device(device)
    streamed = is_streamed(source_file, {"items": items, "comparisons": comparisons}, passes)
    asked = Asked(
        ranks=query is not None or comparisons is not None,
        compared=comparisons is not None,
        views=bool(view) or unscored is not None,
        smoothing=alpha is not None,
        streamed=streamed,
        effect=effect,
    )
    own = {"weighting": weighting, "basis": basis, "alpha": alpha, "components": components, "atoms": atoms}
    own |= {"amplitude": amplitude, "noise": noise}
    began = time.perf_counter()
    with working(quiet=quiet, status=not streamed) as doing:
        doing(f"reading {title_of(file)}")
        from corank.cli.comparisons import PairColumns

        method = asked.settled(method)
        options = {"kernel": kernel, "gamma": number_or_word(gamma), **own_options(method, own, asked.plain)}
        source = TrainingSource(
            source_file,
            items_file,
            {"score": score, "query": query, "id": id},
            features or [],
            drop or [],
            comparisons_file,
            PairColumns(**pairs),
            with_margins=method is not MethodName.preference,
            notes_margins=method is MethodName.difference,
        )
        more = {"device": device, "shuffle_queries": shuffle_queries}
        model, compared = _fitted(source, method, asked, options, view or [], {**passes, **more}, doing)
        doing(f"writing {out.name}")
        model.save(out, overwrite=force)
        result = result_of(model, out, time.perf_counter() - began, compared)
        note_no_better(result)
        if report is not None:
            doing(f"writing {report.name}")
            write_page(model, result, file, comparisons, report, force=force)
    if as_json:
        typer.echo(json.dumps(result, indent=2))
    elif not quiet:
        show_outcome(result, file, items, comparisons, out)


def _fitted(
    source: TrainingSource,
    method: MethodName,
    asked: Asked,
    options: dict[str, Any],
    views: list[str],
    passes: dict[str, Any],
    doing: Callable[[str], None],
) -> tuple[Any, dict[str, Any] | None]:
    """The model and, where methods were compared, what came of it."""
    if asked.streamed:
        from corank.cli.large_files import fit_in_passes

        return fit_in_passes(source, method, options, views, passes, doing, effect=asked.effect), None
    from corank.cli.columns import views_of

    training = read_training(source, doing)
    agreeing = views_of(views, training.encoder, list(training.encoder.get_feature_names_out()))
    return fitted(training.on(passes["device"]), method, asked, options, agreeing, doing)
