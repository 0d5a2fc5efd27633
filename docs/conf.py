"""Sphinx configuration."""

import os

import corank

os.environ.setdefault("OPENBLAS_NUM_THREADS", "2")

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
exclude_patterns = ["_build", "auto_examples/**/*.ipynb", "auto_examples/**/*.py.md5"]
templates_path = ["_templates"]

# ---- what a page looks like
html_theme = "pydata_sphinx_theme"
html_title = "corank"
html_static_path = ["_static"]
html_css_files = ["corank.css"]
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
html_sidebars = {"index": []}
pygments_style = "tango"

# ---- Markdown
myst_enable_extensions = ["colon_fence", "dollarmath", "deflist"]
myst_heading_anchors = 3
suppress_warnings = ["myst.header", "toc.empty_glob"]  # a place for pages that are still to come

# ---- reference: one page a name
autosummary_generate = True
autodoc_typehints = "none"
autodoc_member_order = "bysource"
default_role = "autolink"
napoleon_use_rtype = False

# ---- examples
sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    "filename_pattern": r"plot_",
    "ignore_pattern": r"flower|__init__",
    "within_subsection_order": "ExampleTitleSortKey",
    "abort_on_example_error": True,
    "backreferences_dir": "gallery-of",
    "doc_module": ("corank",),
    "download_all_examples": False,
    "show_memory": False,
    "remove_config_comments": True,
    "min_reported_time": 10_000,
}
