"""`corank federated`: sites that learn together and do not show each other their data.

In the order of the file: `init` makes certificates and settings, `coordinate` runs the rounds,
`join` takes part with one site's rows, `predict` asks all sites to score new items; then tables as
sites see them, logs and progress.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import typer
from rich.console import Console
from rich.text import Text

from corank.cli.columns import feature_columns, features_of, text_columns
from corank.cli.console import DASH, check_model_output, note, readable, show, show_json, size_of
from corank.cli.options import (
    TABLE,
    AsJson,
    Force,
    InputFormat,
    OutputFormat,
    Quiet,
    TableOutput,
)
from corank.core.messages import count, in_bytes
from corank.display import Table
from corank.encode.encoder import TableEncoder
from corank.learners.co_rls import CoRankRLS, CoRLS
from corank.model_files import load
from corank.tables import (
    TableError,
    column,
    is_number,
    numbers,
    query_column,
    read_table,
    score_column,
)
from corank_federated.certificates import (
    COORDINATOR,
    Identity,
    check_name,
    fingerprint,
    issued,
    new_authority,
    pem,
)
from corank_federated.coordinator import Coordinator, Report, Round
from corank_federated.messages import NAME, JsonLines
from corank_federated.network import Connection, GrpcChannel, JoinError
from corank_federated.predicting import ModelServer, joint_prediction
from corank_federated.settings import (
    CoordinatorSettings,
    SharedSettings,
    SiteSettings,
    read_coordinator,
    read_site,
)
from corank_federated.shared_items import SharedItems, synthetic_table
from corank_federated.site import Site, comparison_of

COORDINATOR_TOML = """\
# The coordinator of a federated run. It sees predictions on the shared items, never rows.
run = {run}                    # a new name for every new run
address = "0.0.0.0:{port}"     # where it listens
agreement = 0.01               # how much sites should agree on the shared items: sums over items, as in CoRLS
schedule = "sequential"        # or "parallel": all sites at once
report = true                  # false: predictions alone leave a site, without its loss, norm and gradient norm
max_rounds = 200
on_missing = "stop"            # "continue": go on without a site that is lost
join_timeout = 600             # seconds
answer_timeout = 600

[certificates]
authority = "authority.pem"
certificate = "coordinator.pem"
key = "coordinator.key"
{sites}"""

SITE_TOML = """\
# One site of a federated run.
name = "{name}"
coordinator = {address}   # where to dial
model = "{name}.corank"         # where its own model is kept

[certificates]
authority = "authority.pem"
certificate = "{name}.pem"
key = "{name}.key"

[data]                          # stays here
file = "rows.csv"
score = "score"
# query = "user"                # for ranking: which rows compete

[shared]                        # the same items, ids and order at every site
file = "shared.csv"
id = "id"
# agreed = ["price"]            # columns that must be the same everywhere, too

[learner]
task = "regression"             # or "ranking"
kernel = "rbf"
alpha = "tune"                  # by this site's own held-out error

[limits]
rounds = 200                    # answers in all: with answers without end, others could learn how this site answers everything
# norm = 10.0                   # how large the values may be that it is pulled towards
# report = false                # take part only where predictions alone are asked for

[predict]
allowed = false                 # true: score new items for the others, with join --serve
"""

# ---- options, by the names that the commands give them


def _option(help: str, *names: str, **more: Any) -> Any:
    return typer.Option(*names, help=help, **{"show_default": False, **more})


CoordinatorFile = Annotated[Path, typer.Argument(help="coordinator.toml", show_default=False)]
SiteFile = Annotated[Path, typer.Argument(help="site.toml", show_default=False)]
ItemTable = Annotated[
    Path, typer.Argument(help=f"Table of items to score: {TABLE}.", show_default=False)
]
PartyFolder = Annotated[
    Path, typer.Argument(help="Folder in which to make one folder per party.", show_default=False)
]
LogFile = Annotated[
    Path | None, _option("Also write a log here, one JSON object per line.", "--log")
]
Serve = Annotated[
    bool, _option("Stay connected, and score new items for corank federated predict.", "--serve")
]
ScoredOut = Annotated[
    Path,
    _option(
        "Where to write the items and their scores: .csv, .tsv, .parquet or .jsonl; - prints them.",
        "--out",
    ),
]
ItemColumn = Annotated[
    str, _option("Column that names the items.", "--id", "--item", show_default=True)
]
OnlyIds = Annotated[
    bool, _option("Send only the ids; every site has its own table of these items.", "--only-ids")
]
SiteNames = Annotated[list[str], _option("Name of a site; once for each.", "--site")]
Host = Annotated[str, _option("Where sites find the coordinator.", "--host", show_default=True)]
Port = Annotated[
    int, _option("Port of the coordinator.", "--port", min=1, max=65535, show_default=True)
]
RunName = Annotated[str, _option("Name of the run.", "--run", show_default=True)]
Days = Annotated[
    int, _option("How long certificates are valid.", "--days", min=1, max=3650, show_default=True)
]


federated = typer.Typer(
    name="federated",
    help="Learn together with other sites, none of which shows its data.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)


# ---- init


@federated.command()
def init(
    folder: PartyFolder,
    site: SiteNames,
    host: Host = "localhost",
    port: Port = 8470,
    run: RunName = "first",
    days: Days = 365,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Make certificates and settings: one folder for the coordinator, one for every site.

    Send each site its own folder through a secure channel, and keep FOLDER/authority to yourself.
    With a folder that has an authority already, new sites are added.
    """
    if not run:
        raise ValueError("--run needs a name")
    names = [check_name(name) for name in site]
    if len(set(names)) < len(names):
        raise ValueError("--site: two sites have the same name")
    authority_folder = folder / "authority"
    adding = (authority_folder / "authority.key").exists()
    parties = names if adding else [*names, COORDINATOR]
    taken = [folder / name for name in parties if (folder / name).exists()]
    if taken:
        raise FileExistsError(
            f"{taken[0]} is already there: choose another folder, or move it away"
        )
    settings = folder / COORDINATOR / "coordinator.toml"
    if adding:
        if not settings.is_file():
            raise FileNotFoundError(
                f"{settings} is not there, to which new sites are added: bring it back first"
            )
        authority = Identity.read(
            authority_folder / "authority.pem", authority_folder / "authority.key"
        )
        days_left = (authority.certificate.not_valid_after_utc - datetime.now(UTC)).days
        if days_left < 1:
            raise ValueError(
                f"the authority in {authority_folder} expires within a day: make new certificates"
                " in another folder"
            )
        days = min(days, days_left)  # no certificate outlives the authority that signed it
    else:
        authority = new_authority(days)
        authority_folder.mkdir(parents=True)
        authority_folder.chmod(0o700)
        authority.write(authority_folder, "authority")
    pins = ""
    for name in parties:
        identity = issued(authority, name, days)
        place = folder / name
        place.mkdir()
        identity.write(place, name)
        (place / "authority.pem").write_bytes(pem(authority.certificate))
        if name != COORDINATOR:
            pins += (
                f'\n[[sites]]\nname = "{name}"\nfingerprint ='
                f' "{fingerprint(identity.certificate)}"\n'
            )
            contents = SITE_TOML.format(name=name, address=_quoted(f"{host}:{port}"))
            (place / "site.toml").write_text(contents, encoding="utf-8")
    if adding:
        with settings.open("a", encoding="utf-8") as file:
            file.write(pins)
    else:
        settings.write_text(
            COORDINATOR_TOML.format(run=_quoted(run), port=port, sites=pins), encoding="utf-8"
        )
    if as_json:
        result = {
            "folder": str(folder),
            "sites": names,
            "coordinator": str(settings),
            "added": adding,
            "days": days,
        }
        show_json(result)
    elif not quiet:
        sentences = {
            "for each site": (
                f"{folder}/NAME: its certificate, its key and site.toml, to be filled in"
            ),
            "coordinator": f"{folder}/{COORDINATOR}: the same and coordinator.toml",
            "keep to yourself": (
                f"{authority_folder}: with authority.key anyone can pose as any site"
            ),
            "valid for": count(days, "day"),
        }
        show(
            Table.of_facts(
                f"{count(len(names), 'site')} {'added to' if adding else 'made in'} {folder}",
                sentences,
            )
        )


def _quoted(text: str) -> str:
    """Text as TOML writes it, which is how JSON does."""
    return json.dumps(text, ensure_ascii=False)


# ---- coordinate


@federated.command()
def coordinate(
    settings: CoordinatorFile,
    log: LogFile = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Wait for the sites, run the rounds, and tell the sites to keep their models.

    If it is stopped or killed, start it again: it resumes after the last completed round.
    """
    given = read_coordinator(settings)
    items = None
    # the coordinator's copy of the shared items, whose fingerprint sites must have
    if given.shared is not None:
        table = _shared_table(given.shared)
        items = SharedItems(
            np.zeros((len(table), 1)), **_shared_columns(given.shared, table)
        ).fingerprint
    waiting = f"waiting for {', '.join(given.plan.sites)} at {given.address} …"
    with (
        _logged(log, quiet=quiet),
        _listening(given) as channel,
        _live_rounds(waiting, quiet=quiet) as progress,
    ):
        report = Coordinator(
            given.plan, channel, items=items, state=given.state, progress=progress
        ).run()
    if not report.converged and not quiet:
        note(
            f"stopped after {report.n_rounds} rounds without convergence: raise max_rounds, or"
            " lower agreement; models are kept as they are"
        )
    if as_json:
        show_json(_run_result(report))
    elif not quiet:
        _show_run(report)


@contextmanager
def _listening(given: CoordinatorSettings) -> Iterator[Any]:
    """The coordinator's end of the network."""
    identity, authority = given.certificates.load(COORDINATOR)
    channel = GrpcChannel(
        given.address,
        identity,
        authority,
        given.pins,
        max_items=given.max_items,
        join_timeout=given.join_timeout,
        answer_timeout=given.answer_timeout,
        handshake_timeout=given.handshake_timeout,
        max_connections=given.max_connections,
    )
    try:
        yield channel
    finally:
        channel.close()


def _run_result(report: Report) -> dict[str, Any]:
    last = report.rounds[-1] if report.rounds else None
    return {
        "run": report.run,
        "sites": list(report.sites),
        "lost": report.lost,
        "converged": report.converged,
        "rounds": report.n_rounds,
        "error": None if last is None else last.error,
        "gradient": None if last is None else last.gradient,
        "disagreement": [finished.disagreement for finished in report.rounds],
        "bytes": report.bytes,
        "seconds": round(sum(finished.seconds for finished in report.rounds), 3),
    }


def _show_run(report: Report) -> None:
    result = _run_result(report)
    sentences = {
        "sites": (
            ", ".join(report.sites)
            + "".join(f"; lost {name}: {why}" for name, why in report.lost.items())
        ),
        "rounds": f"{report.n_rounds}, {'converged' if report.converged else 'not converged'}",
    }
    if report.rounds:
        first, last = result["disagreement"][0], result["disagreement"][-1]
        sentences |= {
            "sites differ by": (
                f"{first:.4g} after round {report.rounds[0].number}, {last:.4g} at the end"
            ),
            "exchanged": in_bytes(report.bytes),
            "time": f"{result['seconds']:.1f} s",
        }
    show(Table.of_facts(f"The run {report.run!r}", sentences))


# ---- join


@federated.command()
def join(
    settings: SiteFile,
    serve: Serve = False,
    force: Force = False,
    log: LogFile = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Connect to the coordinator, answer its rounds, and keep this site's model.

    No rows leave the site: only its name and task, the number and a digest of the shared items,
    predictions on them, and three numbers per round. With --serve and a model that is already
    there, it only predicts.
    """
    given = read_site(settings)
    if serve and not given.predicts:
        raise ValueError(f"--serve needs allowed = true in [predict] of {settings}")
    identity, authority = given.certificates.load(given.name)
    line = Connection(
        given.coordinator, identity, authority, max_items=given.max_items, patience=given.patience
    )
    with _logged(log, quiet=quiet):
        if not (serve and given.model.exists() and not force):
            check_model_output(given.model, force=force)
            result = _take_part(given, line, force=force, quiet=quiet)
            if as_json:
                show_json(result)
            elif not quiet:
                _show_joined(result, given.model)
        if serve:
            with _live_rounds(f"{given.name}: ready to predict …", quiet=quiet):
                line.answer(predictor_of(given), forever=True)


def _take_part(given: SiteSettings, line: Any, *, force: bool, quiet: bool) -> dict[str, Any]:
    with _live_rounds(f"{given.name}: learning alone …", quiet=quiet):
        site, encoder = site_of(given)

    kept: list[Path] = []  # a coordinator that did not hear of it asks again

    def keep(site: Site) -> None:
        site.model.save(given.model, overwrite=force or bool(kept), encoder=encoder)
        kept.append(given.model)

    site.keep = keep
    with _live_rounds(
        f"{given.name}: waiting for the coordinator at {given.coordinator} …", quiet=quiet
    ):
        ending = line.answer(site)
    if ending.kind == "stop":
        row, shared = ending["row"], site.shared
        where = ""
        if row is not None:
            where = (
                f" (here: {shared.name(row) if row < len(shared) else f'{len(shared):,} items'})"
            )
        raise JoinError(f"the coordinator stopped: {ending['reason']}{where}")
    return {
        "site": given.name,
        "model": str(given.model),
        "converged": bool(ending["converged"]),
        "rounds": int(ending["round"]),
        "scored": site.model._n_scored,
        "shared": len(site.shared),
        "alpha": float(site.model.alpha_),
    }


def _show_joined(result: dict[str, Any], model: Path) -> None:
    ended = "agreed" if result["converged"] else "stopped"
    sentences = {
        "rows": f"{result['scored']:,} scored, which stayed here",
        "shared items": f"{result['shared']:,}",
        "alpha": f"{result['alpha']:.3g}",
        "saved as": f"{model} ({size_of(model)})",
    }
    show(
        Table.of_facts(
            f"{result['site']}: {ended} after {count(result['rounds'], 'round')}", sentences
        )
    )


# ---- predict


@federated.command()
def predict(
    context: typer.Context,
    settings: CoordinatorFile,
    items: ItemTable,
    out: ScoredOut,
    id: ItemColumn = "id",
    only_ids: OnlyIds = False,
    format: InputFormat = None,
    out_format: OutputFormat = None,
    force: Force = False,
    log: LogFile = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Ask every site to score new items, and write the mean of their scores.

    The items are sent to the sites, which must run corank federated join --serve.
    """
    output = TableOutput(format, force, quiet, as_json, out_format, spreadsheet_safe=False)
    source = readable(context, items, format, is_first=True)
    output.check(out, source)
    given = read_coordinator(settings)
    table = source.read([id])
    if only_ids:
        column(table, id, "id")
    if "score" in table.column_names:
        raise ValueError(f"{items} has a column 'score' already: rename it")
    sent = table.select([id]) if only_ids else table
    waiting = f"waiting for {', '.join(given.plan.sites)} …"
    with (
        _logged(log, quiet=quiet),
        _listening(given) as channel,
        _live_rounds(waiting, quiet=quiet),
    ):
        answers = joint_prediction(channel, given.plan.sites, sent)
    predictions = np.stack(list(answers.values()))
    scores = predictions.mean(axis=0)
    output.write(table.append_column("score", pa.array(scores)), out)
    apart = float(np.sqrt(np.mean((predictions - scores) ** 2)))
    if as_json:
        result = {
            "items": len(table),
            "sites": list(answers),
            "sites_differ_by": apart,
            "out": str(out),
        }
        show_json(result)
    elif not quiet and out != DASH:
        sentences = {"sites differ by": f"{apart:.4g}", "written to": str(out)}
        show(
            Table.of_facts(
                f"{count(len(table), 'item')} scored by {count(len(answers), 'site')}", sentences
            )
        )


# ---- tables as sites see them


def site_of(given: SiteSettings) -> tuple[Site, TableEncoder]:
    """The site of a settings file, and the encoder of its tables."""
    data, ranks = given.data, given.task == "ranking"
    if ranks and (data.query is None) != (given.shared.query is None):
        raise ValueError("query must be given in [data] and in [shared], or in neither")
    roles = {"score": data.score, "query": data.query, "id": data.id}
    table = read_table(data.file, text=[name for name in (data.query, data.id) if name is not None])
    scores = score_column(table, data.score)
    queries = None if data.query is None else query_column(table, data.query)
    shared = _shared_table(given.shared)
    agreed = _shared_columns(given.shared, shared)
    names = feature_columns(table, roles, data.features, data.drop)
    if not data.features:
        names = [name for name in names if name != given.shared.id]
    shared_names = set(shared.column_names)
    for name in names:
        if name not in shared_names:
            raise TableError(
                f"the shared items have no column {name!r}, which the rows of {data.file} have:"
                " leave it out with drop in [data], or name the features"
            )
    encoder = TableEncoder()  # rows and shared items, one below the other, are encoded alike
    both = pa.concat_tables(
        [table.select(names), shared.select(names)], promote_options="permissive"
    )
    features = encoder.fit_transform(both)
    site = Site(
        given.name,
        (CoRankRLS if ranks else CoRLS)(**given.learner),
        features[: len(table)],
        scores,
        SharedItems(features[len(table) :], **agreed),
        qid=queries,
        limits=given.limits,
        state=given.state,
    )
    n_queries = None if queries is None else len(np.unique(queries))
    counts = {"rows": len(table), "scored": int(np.isfinite(scores).sum()), "queries": n_queries}
    site.model.table_ = {**roles, **counts}
    return site, encoder


def _shared_table(settings: SharedSettings) -> pa.Table:
    """The shared items, from their file or their recipe."""
    if settings.recipe is not None:
        return synthetic_table(**settings.recipe)
    assert settings.file is not None
    return read_table(
        settings.file, text=[name for name in (settings.id, settings.query) if name is not None]
    )


def _shared_columns(settings: SharedSettings, table: pa.Table) -> dict[str, Any]:
    """What sites must have in common of the shared items: ids, queries and agreed columns."""
    agreed = []
    for name in settings.agreed:
        values = column(table, name, "agreed")
        agreed.append(numbers(values, name) if is_number(values.type) else values.to_pylist())
    return {
        "ids": column(table, settings.id, "id").to_pylist(),
        "queries": None if settings.query is None else query_column(table, settings.query),
        "agreed": agreed,
    }


def predictor_of(given: SiteSettings) -> ModelServer:
    """A site that scores items with its saved model: items sent to it or, where it has a table of
    its own, their ids.
    """
    model = load(given.model)
    site_table: pa.Table | None = None
    rows: dict[str, int] = {}
    if given.predict_items is not None:
        site_table = read_table(given.predict_items, text=text_columns(model, given.shared.id))
        rows = {
            str(name): row
            for row, name in enumerate(column(site_table, given.shared.id, "id").to_pylist())
        }

    def score(table: pa.Table) -> Any:
        if site_table is not None:
            asked = [str(name) for name in column(table, given.shared.id, "id").to_pylist()]
            unknown = [name for name in asked if name not in rows]
            if unknown:
                raise ValueError(f"{given.name!r} does not know the item {unknown[0]!r}")
            table = site_table.take(pa.array([rows[name] for name in asked]))
        return model.predict(features_of(model, table))

    return ModelServer(given.name, score, comparison_of(model), given.predict_rows)


# ---- logs and progress


class _WarningsAsNotes(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        note(record.getMessage())


@contextmanager
def _logged(log: Path | None, *, quiet: bool = False) -> Iterator[None]:
    """Log to stderr as text, on a terminal only warnings, and to a file as one JSON object per
    line.
    """
    logger = logging.getLogger(NAME)
    handlers: list[logging.Handler] = []
    if not quiet and sys.stderr.isatty():
        handlers.append(_WarningsAsNotes(logging.WARNING))
    elif not quiet:
        handlers.append(logging.StreamHandler())
        handlers[-1].setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    if log is not None:
        handlers.append(logging.FileHandler(log))
        handlers[-1].setFormatter(JsonLines())
    level = logger.level
    logger.setLevel(logging.INFO)
    for handler in handlers:
        logger.addHandler(handler)
    try:
        yield
    finally:
        logger.setLevel(level)
        for handler in handlers:
            logger.removeHandler(handler)
            handler.close()


@contextmanager
def _live_rounds(waiting: str, *, quiet: bool = False) -> Iterator[Callable[[Round], None]]:
    """One line on a terminal that says how the rounds go; nothing elsewhere, where the log says it."""
    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield lambda finished: None
        return
    with console.status(Text(waiting)) as status:
        yield lambda finished: status.update(Text(_round_line(finished)))


def _round_line(finished: Round) -> str:
    """A round in one line."""
    gradient = "" if finished.gradient is None else f", gradient {finished.gradient:.1e}"
    error = (
        "first answers" if finished.error == float("inf") else f"error about {finished.error:.1e}"
    )
    return (
        f"round {finished.number}: {error}{gradient}, sites differ by {finished.disagreement:.4g}, "
        f"{in_bytes(finished.sent + finished.received)}, {finished.seconds:.2f} s"
    )
