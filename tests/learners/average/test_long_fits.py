"""A fit that takes long says so beforehand, and shows how far it has come."""

from contextlib import contextmanager

import numpy as np
import pytest
from typer.testing import CliRunner

from corank import AutoRanker, AutoRegressor, Candidate, display
from corank.cli import app
from corank.experiments.jobs import _attempt
from corank.learners.average import fitting
from corank.learners.average.model import score_units
from corank.learners.average.scored_table import AverageSettings

CANDIDATES = [
    Candidate(kernel="rbf"),
    Candidate(kernel="laplacian", width=2.0),
    Candidate(per_column=True),
]


def rows_and_scores(n):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 4))
    return X, np.sin(2 * X[:, 0]) + 0.1 * rng.standard_normal(n)


@pytest.fixture
def every_fit_is_long(monkeypatch):
    """On a machine that does one operation per second."""
    monkeypatch.setattr(fitting, "SLOWEST", 0.0)
    monkeypatch.setattr(fitting, "product_rate", lambda: 1.0)


@pytest.fixture
def shown(monkeypatch):
    """What is said, and of every bar how much there is to do and how much was done, in order."""
    shown = []

    @contextmanager
    def bar(what, total, **options):
        shown.append([total, 0.0])

        def advance(more):
            shown[-1][1] += more

        yield advance

    monkeypatch.setattr(fitting, "say", shown.append)
    monkeypatch.setattr(fitting, "progress_bar", bar)
    return shown


def work(shown, n, d=20, candidates=CANDIDATES, sampled=None):
    """The operations that a fit to n rows, or a sample of them, is said to take."""
    settings = AverageSettings(ranks=False)
    units = score_units(np.arange(float(sampled or n)), None, None, settings)
    with fitting.told(units, candidates, (n, d), sampled or n):
        return shown[-1][0]


@pytest.mark.usefixtures("every_fit_is_long")
def test_what_is_said_grows_with_rows_columns_and_models(shown):
    sizes = [work(shown, n) for n in (500, 2_000, 5_000, 12_000)]
    assert sizes == sorted(sizes)
    assert sizes[2] > 2 * sizes[1]
    assert work(shown, 100_000) > 1.5 * work(shown, 20_000)
    assert work(shown, 5_000, 500) > 1.2 * work(shown, 5_000, 20)
    assert work(shown, 2_000, 20, 10 * CANDIDATES) > 1.5 * work(shown, 2_000)
    said = [message for message in shown if isinstance(message, str)]
    assert "5,000 rows and 3 models" in said[2]
    assert "1.0 GB of memory" in said[2]


@pytest.mark.usefixtures("every_fit_is_long")
def test_rows_that_are_read_in_passes_take_time_and_no_memory(shown):
    assert work(shown, 10**9, sampled=2_000) > 5 * work(shown, 10**8, sampled=2_000)
    said = [message.split(" and ")[-1] for message in shown if isinstance(message, str)]
    assert said[0] == said[1]


@pytest.mark.usefixtures("every_fit_is_long")
@pytest.mark.parametrize("points", [100, 60], ids=["exact", "basis"])
@pytest.mark.parametrize("learner", [AutoRegressor, AutoRanker])
def test_all_of_the_work_is_shown(learner, points, shown, monkeypatch):
    monkeypatch.setattr(fitting, "FEW_WEIGHED", 20)
    monkeypatch.setattr(fitting, "affordable", lambda n, n_parts=1: (3, points))
    learner(candidates=CANDIDATES[: 3 - learner._ranks]).fit(*rows_and_scores(100))
    said, (total, done) = shown
    assert "100 rows" in said
    assert done == pytest.approx(total)


def test_a_quick_fit_says_nothing_and_measures_nothing(shown, monkeypatch):
    monkeypatch.setattr(fitting, "product_rate", None)
    AutoRegressor(candidates=CANDIDATES).fit(*rows_and_scores(60))
    assert not shown


@pytest.mark.usefixtures("every_fit_is_long")
@pytest.mark.filterwarnings("ignore:y. all scores are tied")
def test_scores_that_are_tied_take_no_time(shown):
    X, y = rows_and_scores(60)
    AutoRegressor(candidates=CANDIDATES).fit(X, np.ones(60))
    AutoRanker(candidates=CANDIDATES[:2]).fit(X, y, qid=np.arange(60))
    assert not shown


def test_a_rate_is_measured():
    assert fitting.product_rate() > 0


@pytest.mark.usefixtures("every_fit_is_long")
def test_a_terminal_shows_a_line_and_a_bar(capsys, monkeypatch):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    display.terminal.cache_clear()
    AutoRegressor(candidates=CANDIDATES).fit(*rows_and_scores(60))
    display.terminal.cache_clear()
    shown = capsys.readouterr().err
    assert shown.startswith("corank: a fit to 60 rows and 3 models takes about")
    assert "fitting" in shown


@pytest.mark.usefixtures("every_fit_is_long")
def test_fits_that_are_compared_say_nothing(caplog):
    X, y = rows_and_scores(60)
    done = _attempt(lambda X, y: AutoRegressor(candidates=CANDIDATES).fit(X, y).score(X, y), X, y)
    assert done.result > 0.5
    assert not done.warnings
    assert not caplog.messages
    assert not display.LOGGER.disabled


@pytest.mark.usefixtures("every_fit_is_long")
@pytest.mark.parametrize("words", [[], ["--quiet"]])
def test_a_command_says_it_in_one_line(words, tmp_path, caplog):
    X, y = rows_and_scores(60)
    rows = np.column_stack([X, y])
    header = "a,b,c,d,y"
    np.savetxt(tmp_path / "rows.csv", rows, delimiter=",", header=header, comments="")
    out = ["--out", str(tmp_path / "m.corank")]
    result = CliRunner().invoke(
        app, ["fit", str(tmp_path / "rows.csv"), "--score", "y", *out, *words]
    )
    assert result.exit_code == 0
    assert len(caplog.messages) == (not words)
    assert not display.LOGGER.disabled
