"""Every snippet of README and the documentation runs as it stands, and every link inside leads
somewhere.

Python blocks of a page run in order, in one namespace and a temporary folder; so do its commands.
Files that a page does not make itself are those of `doc_files`; what `corank suggest` asks is
answered, and `corank compare` runs with two repeats of two methods where the page does not say how
many. A block that cannot run here stands under a comment `<!-- not run: reason -->`, and is listed
as skipped with that reason.
"""

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

import matplotlib as mpl
import pytest
import sklearn
from tests.command_line import run
from tests.doc_files import answer, make_files

ROOT = Path(__file__).parents[2]
MADE = ("auto_examples", "reference", "gallery-of", "_build")  # by Sphinx
PAGES = [
    ROOT / "README.md",
    *(page for page in sorted((ROOT / "docs").rglob("*.md")) if not set(MADE) & set(page.parts)),
]
FENCE = re.compile(
    r"(?:^<!-- not run: (?P<why>[^\n]+?) -->\n)?^(?P<in>"
    r" *)```(?P<kind>[^\n]*)\n(?P<text>.*?)^(?P=in)```$",
    re.MULTILINE | re.DOTALL,
)
QUICK = ("--repeats", "2", "--methods", "ridge,rankrls", "--no-curves")
COMMANDS = ("corank", "python", "pip", "make", "$")
LINK = re.compile(r"(?<!\!)\[[^\]]*\]\((?P<to>[^)\s]+)\)")
IMAGE = re.compile(r"!\[[^\]]*\]\((?P<to>[^)\s]+)\)")


@dataclass(frozen=True)
class Block:
    page: Path
    line: int
    kind: str
    text: str
    why: str | None

    @property
    def name(self):
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks(page):
    text = page.read_text(encoding="utf-8")
    for found in FENCE.finditer(text):
        kind, body = found["kind"].strip(), found["text"]
        if kind == "" and body.lstrip().startswith(COMMANDS):
            kind = "bash"
        if kind in ("python", "bash"):
            yield Block(
                page, 1 + text.count("\n", 0, found.start("text")), kind, body, found["why"]
            )


RUN = {
    str(page.relative_to(ROOT)): [block for block in blocks(page) if block.why is None]
    for page in PAGES
}
LEFT = [block for page in PAGES for block in blocks(page) if block.why is not None]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    make_files(folder)
    return folder


def run_commands(block):
    """Commands of corank, one a line; other programs belong under a comment that says why they do
    not run.
    """
    for line in block.text.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        # what else is in a pipe is not ours
        words = words[: words.index("|")] if "|" in words else words
        if not words:
            continue
        assert words[0] == "corank", (
            f"{block.name}: only commands of corank are run, not {words[0]!r}; mark the block"
        )
        if words[1] == "compare":
            words += ["--jobs", "1", *(() if "--repeats" in words else QUICK)]
        run(*words[1:])
        if words[1] == "suggest" and "--out" in words:
            answer(Path(words[words.index("--out") + 1]))


QUICK_PAGES = ("README.md", "docs/start.md")  # the others run with the slow tests


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=() if page in QUICK_PAGES else pytest.mark.slow)
        for page, page_blocks in RUN.items()
        if page_blocks
    ],
)
@pytest.mark.filterwarnings("ignore:FigureCanvasAgg is non-interactive:UserWarning")
def test_the_snippets_of_a_page_run(page, files, tmp_path, monkeypatch):
    import shutil

    from matplotlib import pyplot as plt

    mpl.use("Agg")
    shutil.copytree(files, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    # where comparisons keep their fits
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    names = {"__name__": "__main__"}
    with sklearn.config_context():  # pages turn metadata routing on
        for block in RUN[page]:
            if block.kind == "bash":
                run_commands(block)
            else:
                exec(compile("\n" * (block.line - 1) + block.text, block.page, "exec"), names)  # noqa: S102
    plt.close("all")


@pytest.mark.parametrize("block", LEFT, ids=lambda block: block.name)
def test_blocks_that_do_not_run_say_why(block):
    assert len(block.why) > 5
    if block.kind == "python":
        compile(block.text, block.name, "exec")
    pytest.skip(f"not run: {block.why}")


def anchors(page):
    """What headings of a page are called in links."""
    text = re.sub(
        r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL
    )
    heads = re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_and_pictures_of_a_page_are_there(page):
    text = page.read_text(encoding="utf-8")
    for found in [*LINK.finditer(text), *IMAGE.finditer(text)]:
        to, _, anchor = found["to"].partition("#")
        if re.match(r"\w+://|mailto:", to) or to.startswith("auto_examples/"):
            continue
        target = (page.parent / to).resolve() if to else page
        assert target.is_file(), f"{page.name} links to {to}, which is not there"
        assert not anchor or anchor in anchors(target), (
            f"{page.name} links to {found['to']}: no such heading"
        )


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_pages_of_the_gallery_that_are_linked_to_have_an_example(page):
    named = re.findall(r"auto_examples/(plot_\w+)\.rst", page.read_text(encoding="utf-8"))
    assert all((ROOT / "examples" / f"{name}.py").is_file() for name in named)


@pytest.mark.parametrize("name", ["CHANGELOG.md", "CITATION.cff", "LICENSE"])
def test_what_readme_points_to_is_there(name):
    assert (ROOT / name).is_file()


def test_files_that_readme_names_in_the_docs_are_there():
    named = re.findall(r"`(docs/[\w/.-]+)`", (ROOT / "README.md").read_text(encoding="utf-8"))
    assert all((ROOT / name).is_file() for name in named), named
