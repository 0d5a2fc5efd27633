"""What the federated commands share: logs, live progress, the extra that they need, tables as sites see them.

`corank federated coordinate`: run the rounds.

A site's tables as its settings describe them: private rows, shared items, items to score later.

`corank federated join`: take part with one site's rows, and keep the model.

`corank federated predict`: score new items by the mean of all sites' models, over the network.

`corank federated init`: certificates, and a settings file for the coordinator and for every site.

`corank federated`: sites that may not share their data. Each subcommand imports what is slow when it runs.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import pyarrow as pa
import typer
from rich.console import Console
from rich.text import Text

from corank._messages import count
from corank.cli.columns import feature_columns, features_of, text_columns
from corank.cli.console import facts, in_bytes, note, show, size_of
from corank.cli.files import DASH, check_model_output, check_printed, check_table_output, given, write_result
from corank.cli.options import TABLE, AsJson, Force, Printed, Quiet, Read
from corank.encoder import TableEncoder
from corank.federated.predicting import ModelServer
from corank.federated.settings import SiteSettings
from corank.federated.shared_items import SharedItems
from corank.federated.site import Site, comparison_of
from corank.learners.co_rls import CoRankRLS, CoRLS
from corank.model_files import load
from corank.tables import TableError, column, query_column, read_table, score_column

if TYPE_CHECKING:
    from corank.federated.coordinator import Report, Round
    from corank.federated.settings import CoordinatorSettings, SharedSettings


def need_extra() -> None:
    """Refuse in one sentence where the extra is not installed."""
    try:
        import cryptography  # noqa: F401
        import grpc  # noqa: F401
    except ImportError as error:
        raise ValueError(f"federated needs {error.name}: pip install 'corank[federated]'") from error


@contextmanager
def logged(log: Path | None, *, quiet: bool = False) -> Iterator[None]:
    """Log to stderr as text where it is no terminal, and to a file as one JSON object a line."""
    from corank.federated.messages import NAME, JsonLines

    logger = logging.getLogger(NAME)
    handlers: list[logging.Handler] = []
    if not quiet and not sys.stderr.isatty():
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
def live_rounds(waiting: str, *, quiet: bool = False) -> Iterator[Callable[[Round], None]]:
    """One line on a terminal that says how the rounds go; nothing elsewhere, where the log says it."""
    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield lambda done: None
        return
    with console.status(Text(waiting)) as status:
        yield lambda done: status.update(Text(round_line(done)))


def round_line(done: Round) -> str:
    """A round in words."""
    from corank.cli.console import in_bytes

    gradient = "" if done.gradient is None else f", gradient {done.gradient:.1e}"
    error = "first answers" if done.error == float("inf") else f"error about {done.error:.1e}"
    return (
        f"round {done.number}: {error}{gradient}, sites differ by {done.disagreement:.4g}, "
        f"{in_bytes(done.sent + done.received)}, {done.seconds:.2f} s"
    )


def shared_table(settings: SharedSettings) -> pa.Table:
    """The shared items, from their file or their recipe."""
    from corank.federated.shared_items import synthetic_table
    from corank.tables import read_table

    if settings.recipe is not None:
        return synthetic_table(**settings.recipe)
    assert settings.file is not None
    text = [name for name in (settings.id, settings.query) if name is not None]
    return read_table(settings.file, text=text)


def shared_columns(settings: SharedSettings, table: pa.Table) -> dict[str, Any]:
    """What sites must have in common of them: ids, queries and agreed columns."""
    from corank.tables import column, is_number, numbers, query_column

    agreed = []
    for name in settings.agreed:
        values = column(table, name, "agreed")
        agreed.append(numbers(values, name) if is_number(values.type) else values.to_pylist())
    return {
        "ids": column(table, settings.id, "id").to_pylist(),
        "queries": None if settings.query is None else query_column(table, settings.query),
        "agreed": agreed,
    }


Log = Annotated[Path | None, typer.Option(help="Also write a log here, one JSON object a line.", show_default=False)]


def coordinate(
    settings: Annotated[Path, typer.Argument(help="coordinator.toml", show_default=False)],
    log: Log = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Wait for the sites, run the rounds, and tell the sites to keep their models.

    Stopped or killed, it goes on after the last completed round when it is started again.
    """
    need_extra()
    from corank.federated.coordinator import Coordinator
    from corank.federated.settings import read_coordinator

    given = read_coordinator(settings)
    items = _own_items(given)
    with logged(log, quiet=quiet):
        channel = listening(given)
        try:
            with live_rounds(
                f"waiting for {', '.join(given.plan.sites)} at {given.address} …", quiet=quiet
            ) as progress:
                run = Coordinator(given.plan, channel, items=items, state=given.state, progress=progress)
                report = run.run()
        finally:
            channel.close()
    if not report.converged and not quiet:
        note(
            f"stopped after {report.n_rounds} rounds without convergence: raise max_rounds, or lower agreement; models "
            "are kept as they are"
        )
    if as_json:
        typer.echo(json.dumps(_result(report), indent=2))
    elif not quiet:
        _show_report(report)


def listening(given: CoordinatorSettings) -> Any:
    """The coordinator's end of the network."""
    from corank.federated.certificates import COORDINATOR
    from corank.federated.network import GrpcChannel

    identity, authority = given.certificates.load(COORDINATOR)
    return GrpcChannel(
        given.address,
        identity,
        authority,
        given.pins,
        max_items=given.max_items,
        join_timeout=given.join_timeout,
        answer_timeout=given.answer_timeout,
    )


def _own_items(given: CoordinatorSettings) -> Any:
    """The fingerprint of the coordinator's copy of the shared items, where it has one."""
    if given.shared is None:
        return None
    import numpy as np

    from corank.federated.shared_items import SharedItems

    table = shared_table(given.shared)
    return SharedItems(np.zeros((len(table), 1)), **shared_columns(given.shared, table)).fingerprint


def _result(report: Report) -> dict[str, Any]:
    last = report.rounds[-1] if report.rounds else None
    return {
        "run": report.run,
        "sites": list(report.sites),
        "lost": report.lost,
        "converged": report.converged,
        "rounds": report.n_rounds,
        "error": None if last is None else last.error,
        "gradient": None if last is None else last.gradient,
        "disagreement": [own.disagreement for own in report.rounds],
        "bytes": report.bytes,
        "seconds": round(sum(own.seconds for own in report.rounds), 3),
    }


def _show_report(report: Report) -> None:
    result = _result(report)
    pairs = {
        "sites": ", ".join(report.sites) + "".join(f"; lost {name}: {why}" for name, why in report.lost.items()),
        "rounds": f"{report.n_rounds}, {'converged' if report.converged else 'not converged'}",
    }
    if report.rounds:
        first, last = result["disagreement"][0], result["disagreement"][-1]
        pairs |= {
            "sites differ by": f"{first:.4g} after round {report.rounds[0].number}, {last:.4g} at the end",
            "exchanged": in_bytes(report.bytes),
            "time": f"{result['seconds']:.1f} s",
        }
    show(facts(f"The run {report.run!r}", pairs))


def site_of(given: SiteSettings) -> tuple[Site, TableEncoder]:
    """The site of a settings file, and the encoder of its tables."""
    data, ranks = given.data, given.task == "ranking"
    if ranks and (data.query is None) != (given.shared.query is None):
        raise ValueError("query must be given in [data] and in [shared], or in neither")
    table = read_table(data.file, text=[name for name in (data.query, data.id) if name is not None])
    scores = score_column(table, data.score)
    queries = None if data.query is None else query_column(table, data.query)
    shared = shared_table(given.shared)
    agreed = shared_columns(given.shared, shared)
    encoder, features = _features(given, table, shared)
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
    site.model.table_ = {
        **_roles(given),
        "rows": len(table),
        "scored": int(np.isfinite(scores).sum()),
        "queries": None if queries is None else len(np.unique(queries)),
    }
    return site, encoder


def _roles(given: SiteSettings) -> dict[str, str | None]:
    return {"score": given.data.score, "query": given.data.query, "id": given.data.id}


def _features(given: SiteSettings, table: pa.Table, shared: pa.Table) -> tuple[TableEncoder, Any]:
    """Rows and shared items, one below the other, encoded alike."""
    names = feature_columns(table, _roles(given), given.data.features, given.data.drop)
    if not given.data.features:
        names = [name for name in names if name != given.shared.id]
    for name in names:
        if name not in shared.column_names:
            raise TableError(
                f"the shared items have no column {name!r}, which the rows of {given.data.file} have: leave it out with "
                "drop in [data], or name the features"
            )
    encoder = TableEncoder()
    both = pa.concat_tables([table.select(names), shared.select(names)], promote_options="permissive")
    return encoder, encoder.fit_transform(both)


def predictor_of(given: SiteSettings) -> ModelServer:
    """A site that scores items with its saved model: those it is sent or, where it has a table of its own, their ids."""
    model = load(given.model)
    own: pa.Table | None = None
    places: dict[str, int] = {}
    if given.predict_items is not None:
        own = read_table(given.predict_items, text=text_columns(model, given.shared.id))
        places = {str(name): row for row, name in enumerate(column(own, given.shared.id, "id").to_pylist())}

    def score(table: pa.Table) -> Any:
        if own is not None:
            asked = [str(name) for name in column(table, given.shared.id, "id").to_pylist()]
            unknown = [name for name in asked if name not in places]
            if unknown:
                raise ValueError(f"{given.name!r} does not know the item {unknown[0]!r}")
            table = own.take(pa.array([places[name] for name in asked]))
        return model.predict(features_of(model, table))

    return ModelServer(given.name, score, comparison_of(model), given.predict_rows)


def join(
    settings: Annotated[Path, typer.Argument(help="site.toml", show_default=False)],
    serve: Annotated[
        bool, typer.Option("--serve", help="Stay, and score new items for corank federated predict.")
    ] = False,
    force: Force = False,
    log: Log = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Dial the coordinator, answer its rounds, and keep this site's model.

    Only predictions on the shared items leave the site, and three numbers a round.
    With --serve and a model that is already there, it only predicts.
    """
    need_extra()
    from corank.federated.network import Connection
    from corank.federated.settings import read_site

    given = read_site(settings)
    if serve and not given.predicts:
        raise ValueError(f"--serve needs allowed = true in [predict] of {settings}")
    identity, authority = given.certificates.load(given.name)
    line = Connection(given.coordinator, identity, authority, max_items=given.max_items, patience=given.patience)
    with logged(log, quiet=quiet):
        if not (serve and given.model.exists() and not force):
            check_model_output(given.model, force=force)
            result = _take_part(given, line, force=force, quiet=quiet)
            if as_json:
                typer.echo(json.dumps(result, indent=2))
            elif not quiet:
                _show_joined(result, given.model)
        if serve:
            with live_rounds(f"{given.name}: ready to predict …", quiet=quiet):
                line.answer(predictor_of(given), forever=True)


def _take_part(given: SiteSettings, line: Any, *, force: bool, quiet: bool) -> dict[str, Any]:
    from corank.federated.network import JoinError

    with live_rounds(f"{given.name}: learning alone …", quiet=quiet):
        site, encoder = site_of(given)
    with live_rounds(f"{given.name}: waiting for the coordinator at {given.coordinator} …", quiet=quiet):
        ending = line.answer(site)
    if ending.kind == "stop":
        here = "" if ending["row"] is None else f" (here: {_row(site, ending['row'])})"
        raise JoinError(f"the coordinator stopped: {ending['reason']}{here}")
    site.model.save(given.model, overwrite=force, encoder=encoder)
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
    how = "agreed" if result["converged"] else "stopped"
    show(
        facts(
            f"{result['site']}: {how} after {count(result['rounds'], 'round')}",
            {
                "rows": f"{result['scored']:,} scored, which stayed here",
                "shared items": f"{result['shared']:,}",
                "alpha": f"{result['alpha']:.3g}",
                "saved as": f"{model} ({size_of(model)})",
            },
        )
    )


def _row(site: Site, row: int) -> str:
    return site.shared.name(row) if row < len(site.shared) else f"{len(site.shared):,} items"


def predict(
    context: typer.Context,
    settings: Annotated[Path, typer.Argument(help="coordinator.toml", show_default=False)],
    items: Annotated[Path, typer.Argument(help=f"Table of items to score: {TABLE}.", show_default=False)],
    out: Annotated[
        Path,
        typer.Option(
            help="Where to write them with their scores: .csv, .tsv, .parquet or .jsonl; - prints them.",
            show_default=False,
        ),
    ],
    id: Annotated[str, typer.Option("--id", "--item", help="Column that names the items.")] = "id",
    only_ids: Annotated[
        bool, typer.Option("--only-ids", help="Send the ids alone; every site has its own table of these items.")
    ] = False,
    format: Read = None,
    out_format: Printed = None,
    force: Force = False,
    log: Log = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Ask every site to score new items, and write the mean of what they say.

    The items are sent to the sites, which must run corank federated join --serve.
    """
    need_extra()
    check_printed(out, out_format, as_json=as_json)
    source = given(context, items, format)
    check_table_output(out, source, force=force)
    import numpy as np
    import pyarrow as pa

    from corank.federated.predicting import joint_prediction
    from corank.federated.settings import read_coordinator
    from corank.tables import column, read_table

    told = read_coordinator(settings)
    table = read_table(source, text=[id])
    if only_ids:
        column(table, id, "id")
    if "score" in table.column_names:
        raise ValueError(f"{items} has a column 'score' already: rename it")
    with logged(log, quiet=quiet):
        channel = listening(told)
        try:
            with live_rounds(f"waiting for {', '.join(told.plan.sites)} …", quiet=quiet):
                found = joint_prediction(channel, told.plan.sites, table.select([id]) if only_ids else table)
        finally:
            channel.close()
    scores = np.mean(list(found.values()), axis=0)
    write_result(table.append_column("score", pa.array(scores)), out, out_format, force=force)
    apart = float(np.sqrt(np.mean((np.stack(list(found.values())) - scores) ** 2)))
    if as_json:
        result = {"items": len(table), "sites": list(found), "sites_differ_by": apart, "out": str(out)}
        typer.echo(json.dumps(result, indent=2))
    elif not quiet and out != DASH:
        show(
            facts(
                f"{count(len(table), 'item')} scored by {count(len(found), 'site')}",
                {"sites differ by": f"{apart:.4g}", "written to": str(out)},
            )
        )


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
rounds = 200                    # answers in all: whoever may ask without end learns how this site answers everything
# norm = 10.0                   # how large the values may be that it is pulled towards
# report = false                # take part only where predictions alone are asked for

[predict]
allowed = false                 # true: score new items for the others, with join --serve
"""


def init(
    folder: Annotated[Path, typer.Argument(help="Where to make it all; a folder a party.", show_default=False)],
    site: Annotated[list[str], typer.Option(help="Name of a site; once for each.", show_default=False)],
    host: Annotated[str, typer.Option(help="Where sites find the coordinator.")] = "localhost",
    port: Annotated[int, typer.Option(help="Its port.", min=1, max=65535)] = 8470,
    run: Annotated[str, typer.Option(help="Name of the run.")] = "first",
    days: Annotated[int, typer.Option(help="How long certificates are valid.", min=1, max=3650)] = 365,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Make certificates and settings: one folder for the coordinator, one for every site.

    Hand each site its own folder over a safe way, and keep FOLDER/authority to yourself.
    With a folder that has an authority already, new sites are added.
    """
    need_extra()
    from corank.federated.certificates import COORDINATOR, Identity, check_name, fingerprint, issued, new_authority, pem

    if not run:
        raise ValueError("--run needs a name")
    names = [check_name(name) for name in site]
    if len(set(names)) < len(names):
        raise ValueError("--site: two sites have the same name")
    own = folder / "authority"
    adding = (own / "authority.key").exists()
    taken = [folder / name for name in ([] if adding else [COORDINATOR]) + names if (folder / name).exists()]
    if taken:
        raise FileExistsError(f"{taken[0]} is already there: choose another folder, or move it away")
    settings = folder / COORDINATOR / "coordinator.toml"
    if adding and not settings.is_file():
        raise FileNotFoundError(f"{settings} is not there, to which new sites are added: bring it back first")
    authority = Identity.read(own / "authority.pem", own / "authority.key") if adding else new_authority(days)
    left = (authority.certificate.not_valid_after_utc - datetime.now(UTC)).days
    if adding and left < 1:
        raise ValueError(f"the authority in {own} expires within a day: make all certificates anew in another folder")
    days = min(days, left) if adding else days  # none outlives whoever signed it
    if not adding:
        own.mkdir(parents=True)
        own.chmod(0o700)
        authority.write(own, "authority")
    pins = ""
    for name in names if adding else [*names, COORDINATOR]:
        identity = issued(authority, name, days)
        place = folder / name
        place.mkdir()
        identity.write(place, name)
        (place / "authority.pem").write_bytes(pem(authority.certificate))
        if name != COORDINATOR:
            pins += f'\n[[sites]]\nname = "{name}"\nfingerprint = "{fingerprint(identity.certificate)}"\n'
            (place / "site.toml").write_text(
                SITE_TOML.format(name=name, address=_quoted(f"{host}:{port}")), encoding="utf-8"
            )
    if adding:
        with settings.open("a", encoding="utf-8") as file:
            file.write(pins)
    else:
        settings.write_text(COORDINATOR_TOML.format(run=_quoted(run), port=port, sites=pins), encoding="utf-8")
    if as_json:
        result = {"folder": str(folder), "sites": names, "coordinator": str(settings), "added": adding, "days": days}
        typer.echo(json.dumps(result, indent=2))
    elif not quiet:
        _show(folder, names, days, COORDINATOR, adding=adding)


def _show(folder: Path, names: list[str], days: int, coordinator: str, *, adding: bool) -> None:
    show(
        facts(
            f"{count(len(names), 'site')} {'added to' if adding else 'made in'} {folder}",
            {
                "for each site": f"{folder}/NAME: its certificate, its key and site.toml, to be filled in",
                "coordinator": f"{folder}/{coordinator}: the same and coordinator.toml",
                "keep to yourself": f"{folder}/authority: whoever has authority.key can be any site",
                "valid for": count(days, "day"),
            },
        )
    )


def _quoted(text: str) -> str:
    """Text as TOML writes it, which is how JSON does."""
    return json.dumps(text, ensure_ascii=False)


app = typer.Typer(
    name="federated",
    help="Learn together with other sites, none of which shows its data.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (init, coordinate, join, predict):
    app.command()(command)

__all__ = ["app"]
