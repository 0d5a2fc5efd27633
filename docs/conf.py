"""Sphinx configuration."""

import corank

project = "corank"
copyright = "2026, the corank developers"
release = corank.__version__
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx.ext.mathjax",
]
html_theme = "pydata_sphinx_theme"
html_title = "corank"
html_show_sourcelink = False
autodoc_typehints = "none"
autodoc_member_order = "bysource"
autodoc_default_options = {
    "members": True,
    "inherited-members": "BaseEstimator",
    "exclude-members": "set_fit_request, set_score_request, set_transform_request, get_metadata_routing, set_output",
}
napoleon_use_rtype = False
exclude_patterns = ["_build"]
suppress_warnings = ["myst.header"]
