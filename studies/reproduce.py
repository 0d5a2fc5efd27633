"""`python -m studies`: are the papers right? Their tables and figures on real data, with a verdict on every finding."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from corank._messages import count
from corank.cli.console import grid, note, show

if TYPE_CHECKING:
    from studies.papers import Finding, Reproduction, Study

ALL, VARIABLE = "all", "CORANK_DATA"
STYLES = {"holds": "bold green", "does not hold": "bold yellow"}


def reproduce(
    name: Annotated[
        str, typer.Argument(help="Which study: its name, or all. --list shows them.", show_default=False)
    ] = "",
    data: Annotated[
        Path | None,
        typer.Option(help="Folder of data sets.", envvar=VARIABLE, show_default=False),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="A small sample of the same protocol: minutes.")] = False,
    jobs: Annotated[int | None, typer.Option(help="Parts at a time. Default: one a core.", show_default=False)] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for what comes out. Default: reproduce-NAME.", show_default=False)
    ] = None,
    seed: Annotated[int, typer.Option(help="All draws follow from it.", min=0)] = 0,
    keep: Annotated[
        Path | None, typer.Option(help="Folder for finished parts. Default: in the user's cache.", show_default=False)
    ] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Do not take up parts of an earlier start.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace files that are already there.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing but errors.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
    listed: Annotated[bool, typer.Option("--list", help="Say which studies there are.")] = False,
) -> None:
    """Repeat the tables and figures of the papers on real data, with a verdict on every finding.

    Interrupted, the same command goes on where it stopped.
    """
    from studies.papers import known_studies, study_named

    if listed or not name:
        return _list([study_named(one) for one in known_studies()])
    if jobs is not None and jobs < 1:
        raise ValueError(f"--jobs must be at least 1, got {jobs}")
    asked = [study_named(one) for one in (known_studies() if name == ALL else (name,))]
    studies, skipped = _can_run(asked, name, data)
    folder = out or Path(f"reproduce-{name}")
    _check_folder(folder, [one.name for one in studies] + ([ALL] if name == ALL else []), force=force)
    for missed, why in skipped.items():
        note(f"skipping {missed}: {why}")
    settings: Any = {"data": data, "quick": quick, "seed": seed}
    ways: Any = {"processes": jobs or os.cpu_count() or 1, "keep": keep or _cache(), "fresh": fresh}
    silent = quiet or as_json
    found, failed = _run_all(studies, settings, ways, folder, alone=name != ALL, silent=silent)
    commands = {one.name: _command(one.name, settings, needs_data=bool(one.files)) for one in studies}
    commands[ALL] = _command(ALL, settings, needs_data=True)
    _write(found, folder, commands, skipped={**skipped, **failed} if name == ALL else None, force=force)
    if as_json:
        _print_json(found, skipped, commands)
    elif not quiet and name == ALL:
        _show_all(found, {**skipped, **failed}, folder)
    if failed:
        raise ValueError(f"{', '.join(failed)} failed; the others are in {folder}")
    return None


# ---- what goes in


def _can_run(studies: list[Study], name: str, data: Path | None) -> tuple[list[Study], dict[str, str]]:
    """The studies whose data are there, and why the others cannot be run; for a single study that is an error."""
    from studies.papers import missing_data

    if data is not None and not data.is_dir():
        raise ValueError(f"--data {data} is not a folder")
    ready, skipped = [], {}
    for study in studies:
        missing = missing_data(study, data)
        if not missing:
            ready.append(study)
        elif data is None:
            folders = ", ".join(study.folders)
            skipped[study.name] = f"it needs data ({folders}); say where they are with --data or {VARIABLE}"
        else:
            skipped[study.name] = f"{data} has no {', '.join(missing)}"
    if name != ALL and skipped:
        raise ValueError(f"{name} cannot be run: {skipped[name]}")
    return ready, skipped


def _check_folder(folder: Path, names: list[str], *, force: bool) -> None:
    from studies.papers_files import targets

    if folder.exists() and not folder.is_dir():
        raise NotADirectoryError(f"--out {folder} is a file: give the name of a folder")
    there = [path for path in targets(folder, names) if path.exists()]
    if there and not force:
        raise FileExistsError(f"{there[0]} is already there: use --force to replace it, or --out for another folder")
    nearest = next(parent for parent in (folder, *folder.absolute().parents) if parent.exists())
    if not os.access(nearest, os.W_OK):
        raise PermissionError(f"--out {folder} cannot be written: no permission in the folder {nearest}")


def _cache() -> Path:
    root = os.environ.get("XDG_CACHE_HOME")
    return (Path(root) if root else Path.home() / ".cache") / "corank" / "reproduce"


def _run_all(
    studies: list[Study], settings: Any, ways: Any, folder: Path, *, alone: bool, silent: bool
) -> tuple[list[Reproduction], dict[str, str]]:
    """Every study, shown as it is done; one that fails does not stop the others, unless it is the only one."""
    from corank.experiments.jobs import JobsFailed, shown_on
    from studies.papers import Settings
    from studies.papers import reproduce as run_study

    found, failed = [], {}
    for study in studies:
        progress = shown_on(Console(stderr=True, quiet=silent), study.name)
        try:
            one = run_study(study, Settings(**settings), progress=progress, **ways)
        except JobsFailed as error:
            if alone:
                raise ValueError(f"{study.name}: {error}; the other parts are kept") from error
            failed[study.name] = str(error).splitlines()[0]
            note(f"{study.name}: {error}")
            continue
        except KeyboardInterrupt:
            note("finished parts are kept: the same command goes on from there")
            raise
        found.append(one)
        if not silent:
            _show(one, folder if alone else None)
    return found, failed


# ---- what comes out


def _write(
    found: list[Reproduction], folder: Path, commands: dict[str, str], *, skipped: dict[str, str] | None, force: bool
) -> None:
    from studies.papers_files import write_studies

    write_studies(found, folder, commands, skipped=skipped, overwrite=force)


def _command(name: str, settings: Any, *, needs_data: bool) -> str:
    """What to type for these results, wherever the data lie and however many cores there are."""
    words = ["python -m studies", name, "--data DIR" if needs_data else "", "--quick" if settings["quick"] else ""]
    words.append(f"--seed {settings['seed']}" if settings["seed"] else "")
    return " ".join(word for word in words if word)


def _list(studies: list[Study]) -> None:
    table = grid("Studies", ("name", "data"), last="makes again")
    for study in studies:
        table.add_row(study.name, ", ".join(study.folders) or "none", f"{study.title} ({', '.join(study.sources)})")
    from studies.papers.wording import PAPERS

    papers = ", ".join(f"{number} {name}" for number, name in PAPERS.items())
    show(
        table,
        Text(f"The papers: {papers}."),
        Text("python -m studies NAME --data DIR runs one of them, python -m studies all --data DIR all."),
    )


def _show(found: Reproduction, folder: Path | None) -> None:
    from studies.papers.wording import duration, summed_up

    outcome = found.outcome
    parts: list[Any] = [
        Text(found.study.title, style="bold"),
        *(_table(one) for one in outcome.tables if not one.details),
    ]
    parts += [line for one in outcome.findings for line in _verdict(one)]
    parts += [Text(), Text(summed_up(outcome.findings), style="bold")]
    if found.settings.quick:
        parts.append(Text("A quick run: a small sample of the protocol; without --quick its verdicts count."))
    fits = f"{count(outcome.n_fits, 'fit')}, {duration(found.seconds)} of computing"
    where = "" if folder is None else f" Tables, figures and the page are in {folder}."
    parts.append(Text(f"{fits}.{where}\n", style="dim"))
    show(*parts)


def _table(table: Any) -> Any:
    """Numbers keep their width, words give way."""
    from studies.papers.wording import columns_of_words, rows_shown

    words, rows = {0, *columns_of_words(table)}, rows_shown(table)
    shape = grid(table.title, ())
    for at, name in enumerate(table.columns):
        if at in words:
            longest = max((len(word) for row in rows for word in row[at].split()), default=1)
            shape.add_column(name, overflow="fold", min_width=longest)
        else:
            shape.add_column(name, justify="right", min_width=max((len(row[at]) for row in rows), default=1))
    for row in rows:
        shape.add_row(*map(Text, row))
    return shape


def _verdict(finding: Finding) -> tuple[Any, Any]:
    said = Text(finding.verdict, style=STYLES.get(finding.verdict, "bold"))
    claim = Text.assemble(said, f": {finding.claim} ({finding.source})")
    return claim, Padding(Text(finding.evidence, style="dim"), (0, 0, 0, 4))


def _show_all(found: list[Reproduction], skipped: dict[str, str], folder: Path) -> None:
    from studies.papers.wording import summed_up

    table = grid("All studies", ("study",), last="verdicts")
    for one in found:
        table.add_row(one.study.name, Text(summed_up(one.outcome.findings)))
    for name, why in skipped.items():
        table.add_row(name, Text(f"not run: {why}", style="yellow"))
    show(table, Text(f"Tables, figures and pages are in {folder}; the summary is {folder / 'all.html'}."))


def _print_json(found: list[Reproduction], skipped: dict[str, str], again: dict[str, str]) -> None:
    from studies.papers_files import as_dict, as_json

    studies = [as_dict(one, again[one.study.name]) for one in found]
    typer.echo(as_json({"studies": studies, "skipped": skipped}).decode(), nl=False)
