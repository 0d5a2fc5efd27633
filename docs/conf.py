"""Sphinx configuration."""

import importlib.util
import os
import re
from pathlib import Path

from sphinx.util.fileutil import copy_asset

import corank

os.environ.setdefault(
    "OPENBLAS_NUM_THREADS", "1"
)  # examples are small: threads would only wait for each other

project = "corank"
copyright = "2026, the corank developers"
release = corank.__version__
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx.ext.mathjax",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = [
    "_build",
    "auto_examples/**/*.ipynb",
    "auto_examples/**/*.py.md5",
    "**sg_execution_times.rst",  # loads scripts and styles from other sites
]
templates_path = ["_templates"]

# ---- what a page looks like
html_theme = "pydata_sphinx_theme"
html_title = "corank"
html_static_path = ["_static"]
html_css_files = ["corank.css"]
smartquotes = False  # "tune" in a description is a value to type
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "logo": {"text": "corank"},
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "show_prev_next": False,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
}
html_sidebars = {"index": [], "start": [], "glossary": []}
pygments_style = "tango"

# ---- Markdown
myst_enable_extensions = ["colon_fence", "dollarmath", "deflist"]
myst_heading_anchors = 3
suppress_warnings = ["myst.header"]

# ---- formulas: MathJax lies beside the pages, so that they show without a network
mathjax_path = "mathjax/startup.js"
mathjax3_config = {"loader": {"load": ["input/tex", "output/chtml", "a11y/assistive-mml"]}}
_MATHJAX = (  # what these three need, of the twenty megabytes of the package
    "startup.js",
    "core.js",
    "input/tex.js",
    "input/tex/extensions",
    "output/chtml.js",
    "output/chtml/fonts",
    "a11y/assistive-mml.js",
)

# ---- reference: one page per name
autosummary_generate = True
autodoc_typehints = "none"
autodoc_member_order = "bysource"
default_role = "autolink"
rst_prolog = ".. currentmodule:: corank"  # so that `RankRLS` is found, in examples too
napoleon_use_rtype = False
napoleon_use_param = (
    False  # the types of parameters are descriptions ("row indices"), not names to be linked
)
napoleon_custom_sections = ["Returns"]  # sentences, not types

# ---- references that lead nowhere are errors, but for these
nitpicky = True
nitpick_ignore_regex = [
    # documented by other projects, whose lists of names are not fetched when these pages are built
    (
        r"py:.*",
        r"(numpy|scipy|sklearn|pandas|polars|pyarrow|matplotlib|torch|dask|distributed|collections\.abc)(\..*)?",
    ),
    (r"py:class", r"ndarray"),
    # parameters, attributes and file formats in backticks, which become links where something of that name can be imported
    (r"py:obj", r"([A-Z]\w*\.)?[a-z]\w*"),
    # internal: met in annotations and descriptions of documented names, without a page of their own
    (r"py:obj", r"corank\.tables"),
    (
        r"py:class",
        r"Column|FeatureGroup|corank\.experiments\.\w+\.Record|corank\.learners\.pair_explanation\.Contribution",
    ),
    (r"py:exc", r"ModelFileError|AnswersChanged"),
]

# ---- examples
sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    "filename_pattern": r"plot_",
    "ignore_pattern": r"flower|__init__",
    "within_subsection_order": "ExampleTitleSortKey",
    "abort_on_example_error": True,
    "backreferences_dir": "gallery-of",
    "doc_module": ("corank", "corank_federated"),
    "download_all_examples": False,
    "show_memory": False,
    "remove_config_comments": True,
    "min_reported_time": 10_000,
}


# ---- docstrings: "y : (n,) scores, NaN = unscored" is a description, not a type in italics
_ENTRY = re.compile(r"^(?P<indent>\s*)(?P<names>[\w*]+(, [\w*]+)*) : (?P<text>.+)$")
_SECTION = re.compile(r"^\s*(Parameters|Attributes|Other Parameters)$")


def entries_in_words(_app, _what, _name, _object, _options, lines):
    """Move the text of an entry below its names, unless it is a type with a description of its own."""
    within, at = False, 0
    while at < len(lines):
        underlined = at + 1 < len(lines) and set(lines[at + 1].strip()) == {"-"}
        within = bool(_SECTION.match(lines[at])) if underlined else within
        found = _ENTRY.match(lines[at]) if within else None
        if found:
            below = lines[at + 1] if at + 1 < len(lines) else ""
            deeper = len(below) - len(below.lstrip()) > len(found["indent"]) and below.strip()
            short = len(found["text"]) < 60 and not set(":;.") & set(found["text"])
            typed = deeper and (
                "default=" in found["text"] or (short and below.strip()[0].isupper())
            )
            if not typed:
                lines[at : at + 1] = [
                    f"{found['indent']}{found['names']}",
                    f"{found['indent']}    {found['text']}",
                ]
        if underlined and lines[at].strip() == "Returns" and lines[at + 2].strip() == "self":
            del lines[at : at + 3]
        at += 1


def copy_mathjax(app):
    """Copy MathJax from its package to the static files of the pages."""
    package = importlib.util.find_spec("sphinx-mathjax-offline")
    source = Path(package.origin).parent / "static" / "mathjax"
    for name in _MATHJAX:
        target = Path(app.outdir, "_static", "mathjax", name)
        copy_asset(source / name, target if (source / name).is_dir() else target.parent)


def setup(app):
    """Read docstrings before napoleon does, and bring MathJax along."""
    app.connect("autodoc-process-docstring", entries_in_words, priority=400)
    app.connect("builder-inited", copy_mathjax)
