"""The framework: parts are kept and taken up again, nothing is overwritten, missing data are said,
pages stand alone.
"""

import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import studies.__main__ as command
import studies.run
from corank.experiments.jobs import JobsFailed
from studies.papers import PAPERS
from studies.run import Ways, keep_parts, run_study, sources_of_studies
from studies.study import (
    CANNOT_BE_TESTED,
    DOES_NOT_HOLD,
    ELSEWHERE,
    HOLDS,
    NOT_CLAIMED,
    PARTLY,
    Figure,
    Finding,
    Measured,
    Outcome,
    Panel,
    Part,
    Series,
    Settings,
    Study,
    Table,
)
from studies.verdicts import (
    at_most,
    gap_between,
    growth,
    growths,
    joint_verdict,
    one_sided,
    smaller_error,
    smaller_errors,
)
from studies.write import as_dict, as_json, cell_text, summary_of, write_studies

N_PARTS = 6


def draw(settings, rng, number, pause=0.0):
    """A part: random numbers, NaN among them."""
    time.sleep(pause)
    marker = os.environ.get("CORANK_TEST_MARKER")
    if marker:
        with Path(marker).open("a") as file:
            file.write(f"{number}\n")
    return {
        "number": number,
        "drawn": float(rng.standard_normal()),
        "missing": float("nan"),
        "pair": (1, 2),
    }


def fail(settings, rng):
    raise ValueError("on purpose")


def conclude(settings, results):
    drawn = [result["drawn"] for result in results.values()]
    findings = [
        Finding("Tsivtsivadze2010 table 1", "It is | so.", HOLDS, "1 < 2"),
        Finding("Brefeld2006 fig. 1", "It is not.", DOES_NOT_HOLD, "<b>2</b> > 1"),
        Finding("Tsivtsivadze2009", "Who knows?", CANNOT_BE_TESTED, "no data"),
    ]
    table = Table(
        "Numbers", ("name", "paper", "ours", "s.e."), [("a", 0.5, drawn[0], float("nan"))]
    )
    both = Table(
        "More", ("name", "value"), [("b", Measured(drawn[1], 0.1)), ("c", None)], details=True
    )
    panel = Panel(
        "left",
        "x",
        "y",
        [
            Series("a", [1, 2], drawn[:2], [-3, -3], [3, 3]),
            Series("b", [1, 2], [0, 1], kind="dashed"),
        ],
    )
    points = Panel(
        "right",
        "x",
        "y",
        [Series("c", [1, 2], [1, 2], [0.5, 1], [2, 3], kind="points")],
        diagonal=True,
    )
    return Outcome(
        [table, both],
        findings,
        [Figure("drawn", "A figure.", [panel, points])],
        ["A note."],
        len(results),
    )


def made(parts=None, files=(), name="made", **more):
    def default(settings):
        return [Part(f"part {k}", draw, {"number": k}, alone=k == 0) for k in range(N_PARTS)]

    sources = ("Tsivtsivadze2010 table 1",)
    return Study(
        name,
        "A made-up study",
        "It does nothing.",
        parts or default,
        conclude,
        files,
        sources,
        **more,
    )


MADE = made()


@pytest.fixture
def registered(monkeypatch):
    """The made-up study in the place of all others, found as the others are."""
    register(monkeypatch, MADE)


def register(monkeypatch, *studies):
    names = {study.name: f"studies.papers.{study.name}" for study in studies}
    for study in studies:
        monkeypatch.setitem(sys.modules, names[study.name], SimpleNamespace(STUDIES=(study,)))
    monkeypatch.setattr(command, "MODULES", names)


@pytest.fixture
def run(capsys):
    """Runs the command; what it prints and its exit code."""

    def run(*arguments):
        code = command.main([str(argument) for argument in arguments])
        printed = capsys.readouterr()
        return SimpleNamespace(exit_code=code, stdout=printed.out, output=printed.out + printed.err)

    return run


# ---- parts


def test_kept_parts_give_the_same_and_are_not_computed_again(tmp_path, monkeypatch):
    monkeypatch.setenv("CORANK_TEST_MARKER", str(tmp_path / "computed"))
    first = run_study(MADE, Settings(), Ways(keep=tmp_path / "keep"))
    again = run_study(MADE, Settings(), Ways(keep=tmp_path / "keep"))
    assert (first.n_computed, again.n_computed) == (N_PARTS, 0)
    assert json.dumps(first.results) == json.dumps(again.results)
    assert len((tmp_path / "computed").read_text().split()) == N_PARTS
    assert (
        run_study(MADE, Settings(), Ways(keep=tmp_path / "keep", fresh=True)).n_computed == N_PARTS
    )


def test_another_seed_size_argument_or_data_file_is_another_part(tmp_path):
    keep = tmp_path / "keep"
    (tmp_path / "data" / "some").mkdir(parents=True)
    file = tmp_path / "data" / "some" / "file"
    file.write_text("1")
    study = made(files=("some/file",))
    settings = Settings(tmp_path / "data")
    first = run_study(study, settings, Ways(keep=keep))
    assert (
        run_study(study, Settings(tmp_path / "data", seed=1), Ways(keep=keep)).n_computed == N_PARTS
    )
    assert (
        run_study(study, Settings(tmp_path / "data", quick=True), Ways(keep=keep)).n_computed
        == N_PARTS
    )
    file.write_text("2")
    assert run_study(study, settings, Ways(keep=keep)).n_computed == N_PARTS
    file.write_text("1")
    assert run_study(study, settings, Ways(keep=keep)).n_computed == 0
    other = made(
        lambda settings: [Part(f"part {k}", draw, {"number": k + 1}) for k in range(N_PARTS)],
        ("some/file",),
    )
    assert run_study(other, settings, Ways(keep=keep)).results != first.results


def test_kept_parts_of_other_sources_are_taken_only_where_asked_for(tmp_path, monkeypatch):
    first = run_study(MADE, Settings(), Ways(keep=tmp_path))
    monkeypatch.setattr(studies.run, "sources_of_studies", lambda: "others")
    reused = run_study(MADE, Settings(), Ways(keep=tmp_path, reuse=True))
    assert reused.n_computed == 0
    assert json.dumps(reused.results) == json.dumps(first.results)
    assert (
        run_study(replace(MADE, protocol=2), Settings(), Ways(keep=tmp_path, reuse=True)).n_computed
        == N_PARTS
    )
    assert run_study(MADE, Settings(), Ways(keep=tmp_path)).n_computed == N_PARTS


def test_parts_of_another_library_do_not_expire_with_corank(tmp_path, monkeypatch):
    def parts(settings):
        return [
            Part("ours", draw, {"number": 1}),
            Part("theirs", draw, {"number": 1}, libraries=("numpy",)),
        ]

    first = run_study(made(parts), Settings(), Ways(keep=tmp_path))
    assert sum(name.startswith("numpy ") for name in first.code) == 1
    monkeypatch.setattr(studies.run, "sources_of_corank", lambda: "corank of tomorrow")
    assert run_study(made(parts), Settings(), Ways(keep=tmp_path)).n_computed == 1


def test_a_missing_library_is_said_before_anything_is_computed(tmp_path):
    def parts(settings):
        return [
            Part("ours", draw, {"number": 1}),
            Part("theirs", draw, {"number": 1}, libraries=("no-such-library",)),
        ]

    with pytest.raises(
        ImportError, match="made needs no-such-library: pip install no-such-library"
    ):
        run_study(made(parts), Settings(), Ways(keep=tmp_path))
    assert not list(tmp_path.iterdir())


def test_what_is_kept_can_be_concluded_from_without_the_rest(tmp_path):
    keep_parts(MADE, Settings(), Ways(keep=tmp_path, only=["part 1", "part 2"]))
    run = run_study(MADE, Settings(), Ways(keep=tmp_path, kept=True))
    assert (list(run.results), run.n_computed) == (["part 1", "part 2"], 0)
    missing = f"{N_PARTS - 2} of {N_PARTS} parts are left out: they are not kept."
    assert run.outcome.notes[-1] == missing


def test_parts_of_an_optional_library_are_left_out_where_it_is_missing(tmp_path, monkeypatch):
    def parts(settings):
        return [
            Part("ours", draw, {"number": 1}),
            Part("theirs", draw, {"number": 2}, libraries=("no-such-library",)),
        ]

    def conclude(settings, results):
        return Outcome([], notes=[", ".join(results)])

    study = replace(made(parts, optional=("no-such-library",)), conclude=conclude)
    run = run_study(study, Settings(), Ways(keep=tmp_path, reuse=True))
    assert run.outcome.notes[0] == "ours"
    assert run.outcome.notes[1].startswith("1 of 2 parts are left out: they need no-such-library")
    with monkeypatch.context() as elsewhere:  # on another machine it is there
        elsewhere.setattr(studies.run, "version_of", lambda *names: "1.0")
        both = run_study(study, Settings(), Ways(keep=tmp_path, reuse=True))
    assert (both.n_parts, both.n_computed, both.outcome.notes) == (2, 1, ["ours, theirs"])
    again = run_study(study, Settings(), Ways(keep=tmp_path, reuse=True))
    assert (again.n_parts, again.n_computed, again.outcome.notes) == (2, 0, ["ours, theirs"])


def test_parts_are_computed_in_slices_and_concluded_together(run, registered, tmp_path):
    kept = ("--keep", tmp_path / "keep", "--jobs", 1)
    done = run("made", "--only", "part 1", "part 2", *kept)
    assert done.exit_code == 0
    assert f"made: 2 parts are in {tmp_path / 'keep'}, 2 of them computed now" in done.output
    assert not (tmp_path / "reproduce-made").exists()
    whole = run("made", *kept, "--out", tmp_path / "out", "--json")
    assert json.loads(whole.stdout)["studies"][0]["parts_computed_now"] == N_PARTS - 2
    refused = run("made", "--only", "part x", *kept)
    assert refused.exit_code == 2
    assert "no part of made has part x in its name" in refused.output


def test_fixed_draws_take_no_seed():
    with pytest.raises(ValueError, match="seed is 1, but the draws of made are fixed"):
        run_study(made(fixed_draws=True), Settings(seed=1))


def test_random_numbers_follow_from_seed_and_draw_alone():
    def parts(settings):
        return [
            Part("a", draw, {"number": 0}, draw="one"),
            Part("b", draw, {"number": 0}, draw="one"),
            Part("c", draw, {"number": 0}),
        ]

    results = run_study(made(parts), Settings()).results
    assert results["a"]["drawn"] == results["b"]["drawn"]
    assert results["a"]["drawn"] != results["c"]["drawn"]
    backwards = run_study(made(lambda settings: parts(settings)[::-1]), Settings()).results
    assert backwards["c"]["drawn"] == results["c"]["drawn"]
    assert run_study(made(parts), Settings(seed=1)).results["c"]["drawn"] != results["c"]["drawn"]


def test_several_processes_find_the_same():
    several, alone = (run_study(MADE, Settings(), Ways(processes=n)) for n in (2, 1))
    assert json.dumps(several.results) == json.dumps(alone.results)


@pytest.mark.parametrize(
    "content", ["", "{", "null", '{"key": 1}', '{"key": "x", "done": {"result": 1}}', "[" * 5000]
)
def test_a_damaged_kept_part_is_computed_again(tmp_path, content):
    first = run_study(MADE, Settings(), Ways(keep=tmp_path))
    victim = min(
        path for path in tmp_path.glob("*.json") if sources_of_studies() in path.read_text()
    )
    victim.write_text(content)
    again = run_study(MADE, Settings(), Ways(keep=tmp_path))
    assert again.n_computed == 1
    assert json.dumps(again.results) == json.dumps(first.results)


def test_a_kept_part_that_was_changed_is_computed_again(tmp_path):
    first = run_study(MADE, Settings(), Ways(keep=tmp_path))
    for path in tmp_path.glob("*.json"):
        entry = json.loads(path.read_text())
        entry["done"]["result"]["drawn"] = 1e9
        path.write_text(json.dumps(entry))
    again = run_study(MADE, Settings(), Ways(keep=tmp_path))
    assert again.n_computed == N_PARTS
    assert json.dumps(again.results) == json.dumps(first.results)


def test_a_part_that_fails_leaves_the_others_kept(tmp_path):
    def parts(settings):
        return [Part("good", draw, {"number": 1}), Part("bad", fail)]

    with pytest.raises(JobsFailed, match="on purpose"):
        run_study(made(parts), Settings(), Ways(keep=tmp_path))
    assert len(list(tmp_path.glob("*.json"))) == 1


def vanish(settings, rng):
    os._exit(1)


@pytest.mark.slow
def test_a_process_that_vanishes_is_said_and_the_others_are_kept(tmp_path):
    def parts(settings):
        return [
            *(Part(f"part {k}", draw, {"number": k}) for k in range(N_PARTS)),
            Part("bad", vanish),
        ]

    with pytest.raises(JobsFailed, match="want of memory"):
        run_study(made(parts), Settings(), Ways(keep=tmp_path, processes=2))


def test_parts_have_names_of_their_own():
    with pytest.raises(ValueError, match="several parts called 'a'"):
        run_study(
            made(lambda settings: [Part("a", draw, {"number": k}) for k in range(2)]), Settings()
        )


SCRIPT = """
import sys
from pathlib import Path
sys.path.insert(0, str(Path(sys.argv[1]).parents[1]))
from studies.tests.test_framework import slow_parts, made
from studies.run import Ways, run_study
from studies.study import Settings
if __name__ == "__main__":
    run_study(made(slow_parts), Settings(), Ways(keep=Path(sys.argv[2]), processes=int(sys.argv[3])))
"""


def slow_parts(settings):
    return [Part(f"part {k}", draw, {"number": k, "pause": 0.15}) for k in range(N_PARTS)]


def kill_once_begun(keep, script, processes):
    """Start a run, kill it without warning once a part is there, and say how many are kept then."""
    script.write_text(SCRIPT)
    arguments = [sys.executable, str(script), str(Path(__file__).parent), str(keep), str(processes)]
    process = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while not list(keep.glob("*.json")) and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    children = subprocess.run(
        ["ps", "-o", "pid=", "--ppid", str(process.pid)],
        capture_output=True,
        text=True,
        check=False,
    )
    process.send_signal(signal.SIGKILL)
    process.wait()
    return len(list(keep.glob("*.json"))), [int(pid) for pid in children.stdout.split()]


def test_a_killed_run_goes_on_to_the_same_numbers(tmp_path):
    kept, _ = kill_once_begun(tmp_path / "keep", tmp_path / "script.py", 1)
    assert 1 <= kept < N_PARTS
    resumed = run_study(made(slow_parts), Settings(), Ways(keep=tmp_path / "keep"))
    assert resumed.n_computed == N_PARTS - kept
    assert json.dumps(resumed.results) == json.dumps(
        run_study(made(slow_parts), Settings()).results
    )


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc").is_dir(), reason="processes are looked for in /proc")
def test_no_process_outlives_a_run_that_was_killed(tmp_path):
    _, children = kill_once_begun(tmp_path / "keep", tmp_path / "script.py", 2)
    assert children
    deadline = time.monotonic() + 30
    while any(Path(f"/proc/{pid}").exists() for pid in children) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not [pid for pid in children if Path(f"/proc/{pid}").exists()]


# ---- verdicts


def test_verdicts_follow_test_and_interval():
    rng = np.random.default_rng(0)
    noise, gap = 0.01 * rng.standard_normal(60), 0.3 + 0.1 * rng.standard_normal(60)

    def verdict(better, worse, **more):
        return smaller_error("s", "c", better, worse, units="queries", **more).verdict

    assert verdict(gap - 0.02 + noise, gap, published=-0.02) == HOLDS
    assert verdict(gap - 0.02 + noise, gap, published=-0.1) == PARTLY  # but not by half of it
    assert verdict(gap + 0.02 + noise, gap, published=-0.02) == DOES_NOT_HOLD
    assert verdict(gap + 10 * (noise - noise.mean()), gap, published=-0.02) == CANNOT_BE_TESTED
    assert verdict(gap + 10 * (noise - noise.mean()), gap, worth=-0.02) == CANNOT_BE_TESTED
    assert verdict(gap + noise - noise.mean(), gap, published=-0.5) == DOES_NOT_HOLD
    assert verdict(gap[:3] - 1, gap[:3], published=-1) == CANNOT_BE_TESTED
    assert verdict(np.full(8, np.nan), gap[:8]) == CANNOT_BE_TESTED
    assert verdict(np.zeros(8), np.zeros(8), published=-0.02) == CANNOT_BE_TESTED


@pytest.mark.parametrize("gain", [-0.02, -0.004, 0.0, 0.01])
def test_a_verdict_does_not_turn_round_with_more_of_the_same_draws(gain):
    opposite = {HOLDS: DOES_NOT_HOLD, DOES_NOT_HOLD: HOLDS}
    turned = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        luck = 0.02 * rng.standard_normal((20, 1))  # of a draw, which its queries share
        better = 0.3 + gain + luck + 0.1 * rng.standard_normal((20, 40))
        worse = np.full((20, 40), 0.3)
        quick, full = (
            smaller_error("s", "c", better[:n], worse[:n], units="q", published=-0.02).verdict
            for n in (4, 20)
        )
        turned += opposite.get(quick) == full
    assert turned <= 1


def test_draws_that_differ_count_as_draws():
    """Queries of a draw share a model: a difference that is the luck of one draw is no finding."""
    rng = np.random.default_rng(1)
    base = rng.random((4, 200))
    lucky = base + np.asarray([-0.2, 0.05, 0.05, 0.05])[:, None]
    alone = smaller_error(
        "s", "c", lucky.mean(axis=0), base.mean(axis=0), units="queries", published=-0.02
    )
    together = smaller_error("s", "c", lucky, base, units="queries", published=-0.02)
    assert alone.verdict == HOLDS
    assert together.verdict == CANNOT_BE_TESTED
    assert "4 draws" in together.evidence


def test_intervals_of_few_draws_are_wide():
    rng = np.random.default_rng(2)
    inside = 0
    for _ in range(300):
        draws = rng.standard_normal((4, 1)) + np.zeros((4, 30))
        gap = gap_between(draws, np.zeros_like(draws))
        inside += gap.low <= 0 <= gap.high
    assert inside >= 0.9 * 300


def test_a_claim_about_several_pairs_is_split():
    base = np.linspace(0.2, 0.4, 30)
    errors = {"a": base, "b": base + 0.1, "c": base - 0.1}
    found = smaller_errors(
        "s", "c", errors, {("a", "b"): -0.1, ("a", "c"): -0.1}, units="q", case="here"
    )
    assert [finding.verdict for finding in found] == [HOLDS, DOES_NOT_HOLD]
    assert found[0].sentence == "c: here, a against b"
    assert found[0].interval is not None


def test_the_verdict_on_a_claim_of_several_cases():
    assert joint_verdict([HOLDS, HOLDS]) == HOLDS
    assert joint_verdict([HOLDS, DOES_NOT_HOLD]) == PARTLY
    assert joint_verdict([HOLDS, CANNOT_BE_TESTED]) == PARTLY
    assert joint_verdict([DOES_NOT_HOLD, DOES_NOT_HOLD, CANNOT_BE_TESTED]) == DOES_NOT_HOLD
    assert joint_verdict([DOES_NOT_HOLD, CANNOT_BE_TESTED]) == CANNOT_BE_TESTED
    assert joint_verdict([PARTLY]) == PARTLY
    assert joint_verdict([CANNOT_BE_TESTED] * 2) == CANNOT_BE_TESTED


def test_a_limit_is_kept_broken_or_cannot_be_told():
    def verdict(values):
        return at_most("s", "c", values, 2.0, "{} times as long").verdict

    assert verdict([1.5, 1.6, 1.7]) == HOLDS
    assert verdict([3.0, 3.1, 3.2]) == DOES_NOT_HOLD
    assert verdict([1.0, 2.0, 3.0]) == CANNOT_BE_TESTED
    assert verdict([1.0]) == CANNOT_BE_TESTED  # a single repetition says nothing
    evidence = at_most("s", "c", [1.5, 1.6, 1.7], 2.0, "{} times as long").evidence
    assert evidence == "1.60 (1.35 to 1.85) times as long; at most 2 counts."


def test_what_no_paper_claims_is_not_counted():
    findings = [
        Finding("p", "a", HOLDS, "1"),
        Finding("p", "b", PARTLY, "2", kind=ELSEWHERE),
        Finding("p", "c", DOES_NOT_HOLD, "3", kind=NOT_CLAIMED),
    ]
    expected = "Of 2 findings, 1 holds, 1 holds partly. Not counted: one that no paper claims."
    assert summary_of(findings) == expected


def test_the_statistic_is_that_of_the_worse_ranks():
    better, worse = np.asarray([1.0, 2, 3, 4, 5]), np.asarray([2.0, 4, 6, 8, 4.5])
    statistic, p = one_sided(better, worse)  # differences -1, -2, -3, -4, 0.5: rank 1 is against it
    assert statistic == 1.0
    assert p == pytest.approx(2 / 32)
    assert one_sided(better, better) == (0.0, 1.0)


def test_growth_of_known_powers():
    n = np.asarray([100.0, 300, 1000, 3000])
    assert growth(n, 5 * n**2) == pytest.approx(2)
    np.testing.assert_allclose(growths(n, [n**2, 3 * n**3]), [2, 3])


def test_numbers_are_shown_as_numbers():
    assert [cell_text(cell, 3) for cell in (0.12345, -0.5, 12000, None, float("nan"), "word")] == [
        "0.123",
        "−0.500",
        "12,000",
        "–",
        "–",
        "word",
    ]
    assert cell_text(Measured(0.5, 0.01), 2) == "0.50 ± 0.01"
    assert cell_text(Measured(0.5), 2) == "0.50"
    assert summary_of([]) == "No finding was looked at."


# ---- files


class Links(HTMLParser):
    """Everything a page would load."""

    def __init__(self):
        super().__init__()
        self.loaded = []

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        if tag in ("script", "iframe", "img"):
            self.loaded.append(tag)
        self.loaded += [
            v
            for k, v in given.items()
            if k in ("src", "href") and v and not v.startswith(("#", "data:"))
        ]


def test_everything_is_written_and_stands_alone(tmp_path):
    run = run_study(MADE, Settings(seed=3))
    paths = write_studies(
        [run], tmp_path / "a" / "out", {"made": "python -m studies made"}, skipped={"x": "no data"}
    )
    names = {path.name for path in paths}
    assert names == {f"{n}.{e}" for n in ("made", "summary") for e in ("md", "html", "json")} | {
        "made-drawn.png"
    }
    assert all(path.stat().st_size for path in paths)
    for name in ("made", "summary"):
        page = Links()
        html = (tmp_path / "a" / "out" / f"{name}.html").read_text()
        page.feed(html)
        assert page.loaded == []
        assert "<b>2</b>" not in html
        assert "prefers-color-scheme: dark" in html
    data = json.loads(
        (tmp_path / "a" / "out" / "made.json").read_text(), parse_constant=pytest.fail
    )
    assert (data["seed"], data["fits"], data["command"]) == (3, N_PARTS, "python -m studies made")
    assert data["tables"][0]["rows"][0][3] is None
    assert [finding["verdict"] for finding in data["findings"]] == [
        HOLDS,
        DOES_NOT_HOLD,
        CANNOT_BE_TESTED,
    ]
    assert "numpy" in data["versions"]
    markdown = (tmp_path / "a" / "out" / "made.md").read_text()
    assert "It is \\| so." in markdown
    assert "made-drawn.png" in markdown
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["out"]


def test_nothing_is_written_where_something_would_be_replaced(tmp_path):
    run = run_study(MADE, Settings())
    (tmp_path / "made-drawn.png").write_text("mine")
    with pytest.raises(FileExistsError, match=r"made-drawn\.png"):
        write_studies([run], tmp_path, {})
    assert [path.name for path in tmp_path.iterdir()] == ["made-drawn.png"]
    assert (tmp_path / "made-drawn.png").read_text() == "mine"
    write_studies([run], tmp_path, {}, overwrite=True)
    assert (tmp_path / "made-drawn.png").read_bytes().startswith(b"\x89PNG")


def test_results_are_written_where_the_study_asks_for_it(tmp_path):
    run = run_study(made(with_results=True), Settings())
    write_studies([run], tmp_path, {})
    text = (tmp_path / "made.json").read_text()
    data = json.loads(text, parse_constant=pytest.fail)
    assert data["results"] == {
        key: result | {"missing": None} for key, result in run.results.items()
    }
    assert text.count('\n  "part ') == N_PARTS  # one line each
    assert "results" not in as_dict(run_study(MADE, Settings()), None)


def test_numbers_are_the_same_in_a_second_writing():
    first, second = (as_dict(run_study(MADE, Settings()), None) for _ in range(2))
    for name in ("findings", "tables", "figures"):
        assert as_json({name: first[name]}) == as_json({name: second[name]})


# ---- the command


def test_the_command_runs_shows_and_writes(run, registered, tmp_path):
    done = run("made", "--out", tmp_path / "out", "--keep", tmp_path / "keep", "--jobs", 1)
    assert done.exit_code == 0, done.output
    assert "Of 3 findings, 1 holds, 1 does not hold, 1 cannot be tested" in " ".join(
        done.stdout.split()
    )
    assert (tmp_path / "out" / "made.html").exists()
    again = run("made", "--out", tmp_path / "out", "--keep", tmp_path / "keep", "--jobs", 1)
    assert again.exit_code == 2
    assert "already there: use --force" in " ".join(again.output.split())
    forced = run(
        "made",
        "--out",
        tmp_path / "out",
        "--keep",
        tmp_path / "keep",
        "--jobs",
        1,
        "--force",
        "--json",
    )
    assert forced.exit_code == 0
    data = json.loads(forced.stdout)["studies"][0]
    assert data["parts_computed_now"] == 0
    assert data["command"] == "python -m studies made"


def test_all_writes_a_summary_and_says_what_it_skips(run, registered, tmp_path, monkeypatch):
    register(monkeypatch, MADE, made(files=("some/file",), name="other"))
    monkeypatch.delenv("CORANK_DATA", raising=False)
    done = run(
        "all", "--quick", "--out", tmp_path / "out", "--keep", tmp_path / "keep", "--jobs", 1
    )
    assert done.exit_code == 0, done.output
    assert (
        "skipping other: it needs data (some); say where they are with --data or CORANK_DATA"
        in " ".join(done.output.split())
    )
    data = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert list(data["studies"]) == ["made"]
    assert list(data["skipped"]) == ["other"]
    assert "other was not run" in (tmp_path / "out" / "summary.md").read_text()


def test_all_goes_on_after_a_study_that_fails(run, registered, tmp_path, monkeypatch):
    register(monkeypatch, made(lambda settings: [Part("bad", fail)], name="bad"), MADE)
    done = run(
        "all", "--out", tmp_path / "out", "--keep", tmp_path / "keep", "--jobs", 1, "--quiet"
    )
    assert done.exit_code == 2
    assert "bad failed" in done.output
    assert (tmp_path / "out" / "made.json").exists()
    assert list(json.loads((tmp_path / "out" / "summary.json").read_text())["skipped"]) == ["bad"]


def test_the_list_needs_no_data(run):
    done = run()
    assert done.exit_code == 0
    for name, module in command.MODULES.items():
        assert name in done.stdout
        study = command.study_named(name)
        assert (study.name, bool(study.about)) == (name, True)
        assert bool(study.sources) == module.startswith("studies.papers.")
        assert all(source.split()[0].rstrip(",") in PAPERS for source in study.sources)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["sink"], "there is no study 'sink'; did you mean sinc?"),
        (["nothing-like-it"], "The studies are parses, uci"),
        (["sinc", "--jobs", "0"], "--jobs must be at least 1"),
        (["uci"], "uci cannot be run: it needs data (uci_regression)"),
        (["uci", "--data", "nowhere"], "--data nowhere is not a folder"),
        (
            ["uci", "--data", "."],
            "uci cannot be run: . has no uci_regression/index.json, uci_regression/design.npz",
        ),
        (["sinc", "--out", "file"], "--out file is a file"),
        (["sinc", "--seed", "-1"], "seed"),
    ],
)
def test_bad_requests_are_refused_in_a_sentence(run, arguments, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CORANK_DATA", raising=False)
    Path("file").touch()
    done = run(*arguments)
    assert done.exit_code == 2
    assert message in " ".join(done.output.split())
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_the_folder_of_data_may_be_in_the_environment(run, tmp_path, monkeypatch):
    monkeypatch.setenv("CORANK_DATA", str(tmp_path))
    assert re.search(
        r"uci cannot be run: .* has no uci_regression", " ".join(run("uci").output.split())
    )
