"""The report of a comparison: everything is on the page, the page asks for nothing, and plots take
an axis.
"""

import json
import re
from html.parser import HTMLParser

import matplotlib as mpl
import numpy as np
import pytest
from chromium import CHROMIUM, FLAGS
from command_line import error, run

mpl.use("Agg")
from matplotlib import pyplot as plt

from corank import AutoRanker, CoRankRLS, KPCRank, RankingPursuit, RankRLS
from corank.datasets import make_ranking
from corank.experiments import Items, Protocol, compare
from corank.experiments.protocol import intake
from corank.report import (
    plot_atoms,
    plot_comparison,
    plot_learning_curve,
    plot_path,
    plot_views,
    write_report,
)
from corank.report.page import model_parts

pytestmark = pytest.mark.usefixtures("one_blas_thread")
DATA = make_ranking(n_queries=20, query_size=8, n_features=4, random_state=0)
NAMES = np.array([f"user <{q}>" for q in DATA.qid])
PROTOCOL = Protocol(repeats=2, scored_share=0.4)
METHODS = ["ridge", "rankrls", "corankrls", "difference"]


@pytest.fixture(scope="module")
def found():
    return compare(Items(DATA.X, DATA.y, NAMES), METHODS, PROTOCOL)


@pytest.fixture(scope="module")
def page(found, tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "report.html"
    columns = [{"column": "a<b>", "kind": "number", "treatment": "scaled"}]
    write_report(found, path, title="Jokes & more", command="corank compare x.csv", columns=columns)
    return path


@pytest.fixture(autouse=True)
def _closed_figures():
    yield
    plt.close("all")


class Outline(HTMLParser):
    """Tags that are open, headings, and what a page refers to."""

    def __init__(self, text):
        super().__init__()
        self.open, self.headings, self.references, self.images = [], [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.references += [given[k] for k in ("src", "href", "xlink:href") if k in given]
        if tag == "svg":
            self.images.append(given)
        if tag not in ("meta", "link", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] in ("h1", "h2"):
            self.headings.append(data)


def test_everything_is_on_the_page(page, found):
    text = page.read_text()
    outline = Outline(text)
    assert outline.open == []
    assert outline.headings == [
        "Jokes & more",
        "What came in",
        "Methods",
        "Did unscored rows help?",
        "Learning curves",
        "The model",
        "Single queries",
        "Do probabilities come true?",
        "Time and memory",
        "How it was done",
    ]
    assert found.verdict()[0] in text
    assert "corank compare x.csv" in text
    assert "a&lt;b&gt;" in text
    assert "user &lt;" in text
    assert text.count('scope="row"') > 20


def test_the_page_asks_for_nothing_and_describes_its_figures(page):
    outline = Outline(page.read_text())
    assert all(reference.startswith(("#", "data:")) for reference in outline.references)
    assert "<script" not in page.read_text()
    assert not re.search(r"url\((?!#)", page.read_text())
    assert len(outline.images) >= 5
    assert all(len(image["aria-label"]) > 10 and image["role"] == "img" for image in outline.images)
    ids = re.findall(r'\bid="([^"]+)"', page.read_text())
    assert len(ids) == len(set(ids))  # figures do not share clip paths


def test_a_report_is_not_overwritten_unasked(page, found):
    with pytest.raises(FileExistsError):
        write_report(found, page)


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1100, 380])
def test_a_browser_shows_it_without_complaint(page, scheme, width):
    playwright = pytest.importorskip("playwright.sync_api")
    said, asked = [], []
    with playwright.sync_playwright() as browsers:
        browser = browsers.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        tab = browser.new_page(viewport={"width": width, "height": 800}, color_scheme=scheme)
        tab.on("console", lambda message: said.append(message.text))
        tab.on("pageerror", lambda problem: said.append(str(problem)))
        tab.on("request", lambda request: asked.append(request.url))
        tab.goto(page.as_uri())
        figures = [figure.bounding_box() for figure in tab.locator("figure svg").all()]
        overflow = tab.evaluate("document.documentElement.scrollWidth") - width
        back, ink = tab.evaluate(
            "[getComputedStyle(document.body).backgroundColor,"
            " getComputedStyle(document.body).color]"
        )
        browser.close()
    assert said == []
    assert [url for url in asked if not url.startswith("data:")] == [page.as_uri()]
    assert all(box["width"] > 200 and box["height"] > 80 for box in figures)
    assert overflow <= 0
    assert _contrast(back, ink) > 7


def _contrast(first, second):
    def light(colour):
        parts = np.array([int(part) for part in re.findall(r"\d+", colour)[:3]]) / 255
        parts = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
        return parts @ [0.2126, 0.7152, 0.0722]

    low, high = sorted([light(first), light(second)])
    return (high + 0.05) / (low + 0.05)


def test_what_came_in_is_counted():
    X = np.array([[0.0, 1.0], [0.0, 1.0], [0.0, 2.0], [0.0, 3.0], [0.0, 4.0], [0.0, 5.0]])
    y = np.array([1.0, 1.0, 2.0, 3.0, 3.0, np.nan])
    data = intake(Items(X, y, ["a", "a", "a", "b", "b", "c"]))
    assert (data.rows, data.scored, data.query_sizes.tolist()) == (6, 5, [3, 2, 1])
    assert data.tied == pytest.approx(2 / 4)
    assert any("1 of 3 queries have the same score throughout" in line for line in data.problems)
    assert any("1 of 2 columns are constant" in line for line in data.problems)
    assert any("1 rows repeat" in line for line in data.problems)


# ---------------------------------------------------------------- plots


def test_path_shows_the_chosen_setting():
    model = RankRLS(gamma=[0.1, 1.0]).fit(DATA.X, DATA.y, qid=DATA.qid)
    _, ax = plt.subplots()
    assert plot_path(model, ax=ax) is ax
    chosen = next(line for line in ax.lines if line.get_label() == "chosen")
    assert chosen.get_xdata()[0] == model.alpha_
    assert chosen.get_ydata()[0] == model.path_.error[model.path_.best]
    for other in (KPCRank(), RankingPursuit(n_atoms=[1, 3, 5])):
        ax = plot_path(other.fit(DATA.X, DATA.y, qid=DATA.qid))
        assert ax.get_xlabel() in ("components", "atoms")
    with pytest.raises(ValueError, match="tuned nothing"):
        plot_path(RankRLS(1.0).fit(DATA.X, DATA.y))


def test_views_and_atoms_are_shown():
    model = CoRankRLS(2, alpha=1.0, agreement=1.0).fit(
        DATA.X, np.where(DATA.qid < 10, DATA.y, np.nan), qid=DATA.qid
    )
    ax = plot_views(model, DATA.X)
    np.testing.assert_allclose(np.transpose(ax.lines[0].get_data()), model.predict_views(DATA.X))
    three = CoRankRLS(3, alpha=1.0, agreement=1.0).fit(
        DATA.X, np.where(DATA.qid < 10, DATA.y, np.nan), qid=DATA.qid
    )
    assert plot_views(three, DATA.X).images
    pursuit = RankingPursuit(n_atoms=3).fit(DATA.X, DATA.y, qid=DATA.qid)
    assert len(plot_atoms(pursuit).patches) == 3
    plain = RankRLS(1.0).fit(DATA.X, DATA.y)
    with pytest.raises(ValueError, match="one view"):
        plot_views(plain, DATA.X)
    with pytest.raises(ValueError, match="no atoms"):
        plot_atoms(plain)


def test_comparisons_and_curves_are_shown(found):
    _, ax = plt.subplots()
    assert plot_comparison(found, ax=ax) is ax
    assert [text.get_text().split("  ")[0] for text in ax.get_yticklabels()] == [
        found.method(name).title for name in found.ranked()
    ]
    ax = plot_learning_curve(found)
    lines = {line.get_label(): line for line in ax.lines}
    curve = next(curve for curve in found.curves() if curve.method == "rankrls")
    np.testing.assert_allclose(lines["RankRLS"].get_ydata(), [point.mean for point in curve.points])
    assert len(plot_learning_curve(found, over="unscored").lines) == 1
    with pytest.raises(ValueError, match="no curve"):
        plot_learning_curve([])


# ---------------------------------------------------------------- the command


@pytest.fixture
def table(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    lines = ["user,item,kind,a,b,rating"]
    for row in range(len(DATA.y)):
        kind = "maki" if DATA.X[row, 2] > 0 else "roll"
        lines.append(
            f"u{DATA.qid[row]},i{row},{kind},{DATA.X[row, 0]},{DATA.X[row, 1]},{DATA.y[row]}"
        )
    path = tmp_path / "items.csv"
    path.write_text("\n".join(lines))
    return path


QUICK = ("--methods", "ridge,rankrls", "--repeats", "2", "--no-curves", "--jobs", "1")


def test_the_command_compares_and_writes_the_page(table):
    report = table.with_name("report.html")
    result = run(
        "compare",
        table,
        "--score",
        "rating",
        "--query",
        "user",
        "--id",
        "item",
        "--report",
        report,
        *QUICK,
    )
    assert "RankRLS" in result.stdout
    assert "verdict" in result.stdout
    assert Outline(report.read_text()).headings[0] == "Which method is best on items.csv?"
    again = run(
        "compare", table, "--score", "rating", "--query", "user", "--id", "item", "--json", *QUICK
    )
    read = json.loads(again.stdout)
    assert read["fits_made_now"] == 0  # taken up from the cache
    assert {row["method"] for row in read["methods"]} == {"ridge", "rankrls"}


def test_the_command_takes_parquet_and_no_queries(table, tmp_path):
    import pyarrow.csv
    import pyarrow.parquet

    path = tmp_path / "items.parquet"
    pyarrow.parquet.write_table(pyarrow.csv.read_csv(table), path)
    words = (
        "--drop",
        "user,item",
        "--methods",
        "ridge,rls",
        "--repeats",
        "2",
        "--no-curves",
        "--jobs",
        "1",
        "--json",
    )
    read = json.loads(run("compare", path, "--score", "rating", *words).stdout)
    assert read["measure"] == "rmse"


def test_the_command_refuses_in_one_sentence(table):
    said = error("compare", table, "--score", "rating", "--query", "item", *QUICK)
    assert said.startswith("only 0 values of 'item' have two rows with different 'rating'")
    assert "missing option '--score'" in error("compare", table)
    assert "did you mean 'rating'" in error("compare", table, "--score", "ratig")
    assert error("compare", table, "--score", "rating", "--scored-share", "0").startswith(
        "--scored-share must be"
    )
    assert error("compare", table, "--score", "rating", "--measure", "mae").startswith(
        "--measure 'mae' is unknown"
    )
    assert "did you mean 'rankrls'" in error(
        "compare", table, "--score", "rating", "--methods", "rankrl,ridge"
    )
    assert "call it x.html" in error("compare", table, "--score", "rating", "--report", "x.csv")
    assert "corank compare FILE" in error("compare", "--score", "rating")
    report = table.with_name("there.html")
    report.write_text("mine")
    assert "--force" in error("compare", table, "--score", "rating", "--report", report)
    assert report.read_text() == "mine"


def test_the_page_of_a_model_shows_its_reasons_and_its_views():
    views = CoRankRLS(2, alpha=1.0, agreement=1.0).fit(
        DATA.X, DATA.y, qid=DATA.qid, unscored=DATA.X
    )
    html = "".join(model_parts(views, DATA.X))
    for text in ("2 views are weighted sums", "Do the views agree?"):
        assert text in html
    average = AutoRanker().fit(DATA.X, DATA.y, qid=DATA.qid)
    assert average.candidates_[0].what in "".join(model_parts(average, DATA.X))


def test_fit_writes_a_page_too(table, tmp_path):
    words = (
        "fit",
        table,
        "--score",
        "rating",
        "--query",
        "user",
        "--id",
        "item",
        "--method",
        "pursuit",
        "--atoms",
        "3,5",
    )
    run(*words, "--out", tmp_path / "m.corank", "--report", tmp_path / "m.html")
    outline = Outline((tmp_path / "m.html").read_text())
    assert outline.headings == [
        "RankingPursuit fitted on items.csv",
        "What came in",
        "The model",
        "How it was made",
    ]
    assert len(outline.images) == 2
    assert "call it m.html" in error(*words, "--out", tmp_path / "n.corank", "--report", "m.txt")
    assert not (tmp_path / "n.corank").exists()


def test_killed_half_way_the_command_goes_on(table, monkeypatch):
    words = (
        "compare",
        table,
        "--score",
        "rating",
        "--query",
        "user",
        "--id",
        "item",
        *QUICK[:-2],
        "--jobs",
        "1",
    )
    whole = json.loads(run(*words, "--json", "--keep", table.with_name("other")).stdout)
    from corank.experiments import jobs

    write, count = jobs.Keep.write, iter(range(10))

    def stopping(self, key, done):
        write(self, key, done)
        if next(count) == 1:
            raise KeyboardInterrupt

    monkeypatch.setattr(jobs.Keep, "write", stopping)
    stopped = run(*words, code=130)
    assert "continues from there" in stopped.stderr
    monkeypatch.setattr(jobs.Keep, "write", write)
    resumed = json.loads(run(*words, "--json").stdout)
    assert resumed["fits_made_now"] == 2
    for one, other in zip(whole["runs"], resumed["runs"], strict=True):
        assert one["disagreement"] == other["disagreement"]
