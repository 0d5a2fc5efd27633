"""The command `python -m studies.questions NAME`: runs a study, prints its tables and saves them."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from benchmarks.machine import RESULTS, ROOT
from rich.console import Console

from studies.questions import (
    calibration,
    cora,
    federated,
    headline,
    questions,
    ranking,
    regression,
    report,
    two_views,
)
from studies.questions.runner import FitsFailed, Ways, run_study
from studies.questions.study import Options, Study

STUDIES: dict[str, Study] = {
    study.name: study
    for study in (
        two_views.TWO_VIEWS,
        two_views.NOISE_VIEW,
        regression.STUDY,
        *cora.STUDIES,
        ranking.STUDY,
        calibration.STUDY,
        questions.STUDY,
        federated.STUDY,
        headline.STUDY,
    )
}
CACHE = "cache"


def main(arguments: list[str] | None = None) -> int:
    parser = _parser()
    given = parser.parse_args(arguments)
    study = STUDIES[given.name]
    if given.jobs < 1:
        parser.error("--jobs must be at least 1.")
    if study.needs and given.data is None:
        parser.error(f"{study.name} needs --data, the folder that holds {', '.join(study.needs)}.")
    if missing := [name for name in study.needs if not (given.data / name).exists()]:
        parser.error(f"--data has no {', '.join(missing)}.")
    options = Options(given.data, given.quick)
    return _run(study, options, Ways(given.jobs, given.fresh, given.reuse))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m studies.questions", description=__doc__)
    parser.add_argument("name", metavar="NAME", choices=STUDIES, help=", ".join(STUDIES))
    parser.add_argument("--data", type=Path, metavar="DIR", help="folder with the data sets")
    parser.add_argument("--quick", action="store_true", help="a few small draws, to see that everything runs")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="processes at a time (default 1)")
    parser.add_argument("--fresh", action="store_true", help="do not take results kept from earlier runs")
    parser.add_argument("--reuse", action="store_true", help="take kept results also where the sources have changed")
    return parser


def _run(study: Study, options: Options, ways: Ways) -> int:
    console = Console(width=None if sys.stdout.isatty() else 130)
    results = ROOT / RESULTS
    begin = time.perf_counter()
    try:
        records, run_now = run_study(study, options, ways, results / CACHE, console)
    except FitsFailed as failure:
        console.print(str(failure), markup=False, soft_wrap=True)
        return 1
    except KeyboardInterrupt:
        console.print("Interrupted. Finished fits are kept: the same command goes on from there.")
        return 130
    how = report.Circumstances(
        _command(study, options), options.quick, ways.processes, run_now, round(time.perf_counter() - begin, 1)
    )
    methods = list({job.method.title: job.method for job in study.jobs(options)}.values())
    found = report.document(study, methods, study.summarise(records), records, how)
    text = report.markdown(found)
    console.print(text, markup=False, highlight=False, soft_wrap=True)
    folder, stem = (results / CACHE, f"study-{study.name}-quick") if options.quick else (results, f"study-{study.name}")
    console.print(f"Saved in {report.save(found, text, folder, stem)}", soft_wrap=True)
    return 0


def _command(study: Study, options: Options) -> str:
    """What to type for these results, wherever the data lie."""
    data = ["--data", "DIR"] if study.needs else []
    quick = ["--quick"] if options.quick else []
    return " ".join(["python -m studies.questions", study.name, *data, *quick])


if __name__ == "__main__":
    sys.exit(main())
