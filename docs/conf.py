"""Sphinx configuration."""

import corank

project = "corank"
copyright = "2026, the corank developers"
release = corank.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.autosummary", "sphinx.ext.napoleon", "sphinx.ext.mathjax"]
html_theme = "pydata_sphinx_theme"
html_title = "corank"
html_show_sourcelink = False
autodoc_typehints = "none"
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True, "inherited-members": "BaseEstimator"}
napoleon_use_rtype = False
exclude_patterns = ["_build"]
suppress_warnings = ["myst.header"]
