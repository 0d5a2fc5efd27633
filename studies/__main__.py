"""The command `python -m studies`: runs studies, shows what they say and writes it into files."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table as Grid
from rich.text import Text

from corank.experiments.jobs import JobsFailed, shown_on
from studies.papers import PAPERS
from studies.run import StudyRun, Ways, keep_parts, missing_data, run_study
from studies.study import Finding, Settings, Study, Table
from studies.write import (
    SUMMARY,
    as_dict,
    as_json,
    duration,
    summary_of,
    targets,
    text_columns,
    text_rows,
    write_studies,
)

MODULES = {  # name of a study → its module, imported when the study is asked for
    "parses": "studies.papers.co_rankrls",
    "uci": "studies.papers.corlsr_uci",
    "donations": "studies.papers.corlsr_donations",
    "noise": "studies.papers.kpcrank_noise",
    "sinc": "studies.papers.kpcrank_sinc",
    "jester": "studies.papers.pursuit_jester",
    "movielens": "studies.papers.pursuit_movielens",
    "transduction": "studies.papers.transduction",
    "costs": "studies.papers.costs",
    "default": "studies.questions.default",
    "learner-defaults": "studies.questions.learner_defaults",
    "growth": "studies.questions.growth",
    "items": "studies.questions.items",
    "persons": "studies.questions.persons",
    "votes": "studies.questions.votes",
    "headline": "studies.questions.headline",
    "two-views": "studies.questions.two_views",
    "noise-view": "studies.questions.two_views",
    "cora": "studies.questions.cora",
    "cora-random": "studies.questions.cora",
    "cora-cosine": "studies.questions.cora",
    "calibration": "studies.questions.calibration",
    "questions": "studies.questions.questions",
    "judges": "studies.questions.judges",
    "federated": "studies.questions.federated",
    "basis": "studies.questions.basis",
    "evidence": "studies.questions.evidence",
    "orders": "studies.questions.orders",
}
# name of a group → how the modules of its studies begin
GROUPS = {"papers": "studies.papers.", "all": "studies."}
VARIABLE = "CORANK_DATA"
FAILED, INTERRUPTED = 2, 130
STYLES = {"holds": "bold green", "does not hold": "bold yellow"}
LOOK: Any = {
    "title_justify": "left",
    "title_style": "bold",
    "pad_edge": False,
    "padding": (0, 2, 0, 0),
}


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Raise what the command says in one sentence, in place of the usage."""
        raise ValueError(f"{message}; see {self.prog} --help")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and give its exit code; errors are one sentence on stderr."""
    try:
        return _run(_parser().parse_args(arguments))
    except KeyboardInterrupt:
        _say("interrupted; finished parts are kept: the same command goes on from there")
        return INTERRUPTED
    except (ValueError, OSError) as error:
        _say(str(error))
        return FAILED


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="python -m studies",
        description=(
            "Run studies: the papers' tables and figures on real data, with a verdict on every"
            " finding, and the questions they leave open. Interrupted, the same command goes on"
            " where it stopped."
        ),
    )
    parser.add_argument(
        "name", nargs="?", metavar="NAME", help="a study, papers or all; --list names the studies"
    )
    parser.add_argument(
        "--data", type=Path, metavar="DIR", help=f"folder of data sets (default: ${VARIABLE})"
    )
    parser.add_argument(
        "--quick", action="store_true", help="a small sample of the same protocol: minutes"
    )
    parser.add_argument(
        "--jobs", type=int, metavar="N", help="parts at a time (default: one per core)"
    )
    parser.add_argument(
        "--out",
        type=Path,
        metavar="DIR",
        help="folder for what comes out (default: reproduce-NAME)",
    )
    parser.add_argument(
        "--seed", type=int, default=0, metavar="N", help="all draws follow from it (default: 0)"
    )
    parser.add_argument(
        "--keep",
        type=Path,
        metavar="DIR",
        help="folder for finished parts (default: in the user's cache)",
    )
    parser.add_argument(
        "--fresh", action="store_true", help="do not take up parts of an earlier start"
    )
    parser.add_argument(
        "--reuse", action="store_true", help="take up parts also where the sources have changed"
    )
    parser.add_argument(
        "--only",
        nargs="+",
        metavar="TEXT",
        help="compute and keep only the parts that have one of these texts in their name, and"
        " conclude nothing; parts of several runs come together in one folder (--keep)",
    )
    parser.add_argument(
        "--kept",
        action="store_true",
        help="compute nothing: conclude from the parts that are kept, and say how many are missing",
    )
    parser.add_argument("--force", action="store_true", help="replace files that are already there")
    parser.add_argument("--quiet", action="store_true", help="print nothing but errors")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.add_argument("--list", action="store_true", help="say which studies there are")
    return parser


def _run(asked: argparse.Namespace) -> int:
    if asked.list or not asked.name:
        _list()
        return 0
    if asked.jobs is not None and asked.jobs < 1:
        raise ValueError(f"--jobs must be at least 1, got {asked.jobs}")
    if asked.seed < 0:
        raise ValueError(f"--seed must be at least 0, got {asked.seed}")
    if asked.data is None and os.environ.get(VARIABLE):
        asked.data = Path(os.environ[VARIABLE])

    studies = [study_named(name) for name in names_in(asked.name)]
    is_group = asked.name in GROUPS
    studies, skipped = _ready(studies, asked.data, is_group=is_group)
    if asked.only is not None:
        return _keep_only(studies, asked)
    folder = asked.out or Path(f"reproduce-{asked.name}")
    _check_folder(
        folder,
        [study.name for study in studies] + ([SUMMARY] if is_group else []),
        force=asked.force,
    )
    for name, reason in skipped.items():
        _say(f"skipping {name}: {reason}")

    runs, failed = _run_all(studies, asked, folder, is_group=is_group)
    commands = {
        study.name: _command(study.name, asked, needs_data=bool(study.files)) for study in studies
    }
    commands[SUMMARY] = _command(asked.name, asked, needs_data=True)
    not_run = {**skipped, **failed}
    write_studies(
        runs, folder, commands, skipped=not_run if is_group else None, overwrite=asked.force
    )
    if asked.json:
        entries = [as_dict(run, commands[run.study.name]) for run in runs]
        sys.stdout.write(as_json({"studies": entries, "skipped": skipped}).decode())
    elif not asked.quiet and is_group:
        _show_group(runs, not_run, folder)
    if failed:
        raise ValueError(f"{', '.join(failed)} failed; the others are in {folder}")
    return 0


def _keep_only(studies: list[Study], asked: argparse.Namespace) -> int:
    """Some parts of every study, for a later run."""
    for study in studies:
        ways = _ways(study, asked)
        try:
            n_kept, n_computed = keep_parts(study, _settings(study, asked), ways)
        except (ImportError, JobsFailed) as error:
            raise ValueError(f"{study.name}: {error}") from error
        _say(f"{study.name}: {n_kept} parts are in {ways.keep}, {n_computed} of them computed now")
    return 0


# ---- what goes in


def names_in(name: str) -> list[str]:
    """The names of the studies of a group, or the name of a single study."""
    if name in GROUPS:
        return [study for study, module in MODULES.items() if module.startswith(GROUPS[name])]
    if name not in MODULES:
        near = get_close_matches(name, [*MODULES, *GROUPS], n=1)
        guess = f"; did you mean {near[0]}?" if near else "."
        raise ValueError(f"there is no study {name!r}{guess} The studies are {', '.join(MODULES)}")
    return [name]


def study_named(name: str) -> Study:
    """A study by its name, a key of MODULES."""
    study: Study = next(
        study for study in import_module(MODULES[name]).STUDIES if study.name == name
    )
    return study


def _ready(
    studies: list[Study], data: Path | None, *, is_group: bool
) -> tuple[list[Study], dict[str, str]]:
    """The studies whose data are there, and why the others cannot be run; for a single study that
    is an error.
    """
    if data is not None and not data.is_dir():
        raise ValueError(f"--data {data} is not a folder")
    ready, skipped = [], {}
    for study in studies:
        missing = missing_data(study, data)
        if not missing:
            ready.append(study)
        elif data is None:
            folders = ", ".join(study.folders)
            skipped[study.name] = (
                f"it needs data ({folders}); say where they are with --data or {VARIABLE}"
            )
        else:
            skipped[study.name] = f"{data} has no {', '.join(missing)}"
    if skipped and not is_group:
        name, reason = next(iter(skipped.items()))
        raise ValueError(f"{name} cannot be run: {reason}")
    return ready, skipped


def _check_folder(folder: Path, names: list[str], *, force: bool) -> None:
    """Raise where files cannot be written: worth asking before long work."""
    if folder.exists() and not folder.is_dir():
        raise NotADirectoryError(f"--out {folder} is a file: give the name of a folder")
    there = [path for path in targets(folder, names) if path.exists()]
    if there and not force:
        raise FileExistsError(
            f"{there[0]} is already there: use --force to replace it, or --out for another folder"
        )
    nearest = next(parent for parent in (folder, *folder.absolute().parents) if parent.exists())
    if not os.access(nearest, os.W_OK):
        raise PermissionError(
            f"--out {folder} cannot be written: no permission in the folder {nearest}"
        )


def _cache() -> Path:
    root = os.environ.get("XDG_CACHE_HOME")
    return (Path(root) if root else Path.home() / ".cache") / "corank" / "studies"


def _settings(study: Study, asked: argparse.Namespace) -> Settings:
    is_group = asked.name in GROUPS
    seed = 0 if is_group and study.fixed_draws else asked.seed
    return Settings(asked.data, asked.quick, seed)


def _ways(study: Study, asked: argparse.Namespace) -> Ways:
    silent = asked.quiet or asked.json
    return Ways(
        processes=asked.jobs or os.cpu_count() or 1,
        keep=asked.keep or _cache(),
        fresh=asked.fresh,
        reuse=asked.reuse,
        only=tuple(asked.only or ()),
        kept=asked.kept,
        progress=shown_on(Console(stderr=True, quiet=silent), study.name),
    )


def _run_all(
    studies: list[Study], asked: argparse.Namespace, folder: Path, *, is_group: bool
) -> tuple[list[StudyRun], dict[str, str]]:
    """Every study, shown as it is done; one that fails does not stop the others of a group."""
    silent = asked.quiet or asked.json
    runs, failed = [], {}
    for study in studies:
        try:
            run = run_study(study, _settings(study, asked), _ways(study, asked))
        except ImportError as error:
            if not is_group:
                raise ValueError(str(error)) from error
            failed[study.name] = str(error)
            _say(str(error))
            continue
        except JobsFailed as error:
            if not is_group:
                raise ValueError(f"{study.name}: {error}; the other parts are kept") from error
            # how many parts failed, and why the first
            failed[study.name] = " ".join(str(error).splitlines()[:2])
            _say(f"{study.name}: {error}")
            continue
        runs.append(run)
        if not silent:
            _show(run, None if is_group else folder)
    return runs, failed


# ---- what comes out


def _say(sentence: str) -> None:
    sys.stderr.write(f"studies: {sentence}\n")


def _print(*renderables: Any) -> None:
    Console(highlight=False, width=None if sys.stdout.isatty() else 130).print(
        *renderables, sep="\n"
    )


def _grid(title: str, columns: Sequence[str]) -> Grid:
    grid = Grid(title=title, box=box.SIMPLE_HEAD, **LOOK)
    for column in columns:
        grid.add_column(column, overflow="fold")
    return grid


def _command(name: str, asked: argparse.Namespace, *, needs_data: bool) -> str:
    """What to type for these results, wherever the data lie and however many cores there are."""
    command = f"python -m studies {name}"
    command += " --data DIR" if needs_data else ""
    command += " --quick" if asked.quick else ""
    command += " --kept" if asked.kept else ""
    return command + (f" --seed {asked.seed}" if asked.seed else "")


def _list() -> None:
    grid = _grid("Studies", ("name", "data", "study"))
    for name in MODULES:
        study = study_named(name)
        sources = f" ({', '.join(study.sources)})" if study.sources else ""
        grid.add_row(name, ", ".join(study.folders) or "none", f"{study.title}{sources}")
    _print(
        grid,
        Text(f"The papers: {', '.join(f'{key} {proposal}' for key, proposal in PAPERS.items())}."),
        Text(
            "python -m studies NAME --data DIR runs one of them; as NAME, papers stands for those"
            " of the papers, all for all."
        ),
    )


def _show(run: StudyRun, folder: Path | None) -> None:
    outcome = run.outcome
    _print(Text(run.study.title, style="bold"))
    _print(*(_table(table) for table in outcome.tables if not table.details))
    for finding in outcome.findings:
        _print(*_finding(finding))
    _print(*(Text(note) for note in outcome.notes))
    if outcome.findings:
        _print(Text(), Text(summary_of(outcome.findings), style="bold"))
    if run.settings.quick:
        _print(
            Text("A quick run: a small sample of the protocol; without --quick its verdicts count.")
        )
    effort = f"{outcome.n_fits:,} fits, {duration(run.seconds)} of computing."
    where = "" if folder is None else f" Tables, figures and the page are in {folder}."
    _print(Text(f"{effort}{where}\n", style="dim"))


def _table(table: Table) -> Grid:
    """Numbers keep their width, text gives way."""
    left, rows = {0, *text_columns(table)}, text_rows(table)
    grid = _grid(table.title, ())
    for at, name in enumerate(table.columns):
        if at in left:
            longest = max((len(word) for row in rows for word in row[at].split()), default=1)
            grid.add_column(name, overflow="fold", min_width=longest)
        else:
            grid.add_column(
                name, justify="right", min_width=max((len(row[at]) for row in rows), default=1)
            )
    for row in rows:
        grid.add_row(*map(Text, row))
    return grid


def _finding(finding: Finding) -> tuple[Any, Any]:
    verdict = Text(finding.verdict, style=STYLES.get(finding.verdict, "bold"))
    claim = Text.assemble(verdict, f": {finding.sentence} ({finding.source})")
    return claim, Padding(Text(finding.evidence, style="dim"), (0, 0, 0, 4))


def _show_group(runs: list[StudyRun], not_run: dict[str, str], folder: Path) -> None:
    grid = _grid("Studies", ("study", "verdicts"))
    for run in runs:
        grid.add_row(run.study.name, Text(summary_of(run.outcome.findings)))
    for name, reason in not_run.items():
        grid.add_row(name, Text(f"not run: {reason}", style="yellow"))
    summary = folder / f"{SUMMARY}.html"
    _print(grid, Text(f"Tables, figures and pages are in {folder}; the summary is {summary}."))


if __name__ == "__main__":
    sys.exit(main())
