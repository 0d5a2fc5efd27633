"""Views by the names of columns: `--view text='text_*' --view image='img_*'`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Any

import numpy as np

from corank.encoder import TableEncoder
from corank.tables import TableError, near_names
from corank.views import View, of_encoded, random_bases, random_split

_NAMED = re.compile(r"([\w .-]+)=(.+)")


def views_of(patterns: Sequence[str], encoder: TableEncoder | None, names: Sequence[str]) -> Any:
    """Views of features by the names of the columns they come from, or two halves of the columns.

    Parameters
    ----------
    patterns : one a view, such as `text_*,title` or with a name `text=text_*,title`
    encoder : what makes features of the columns of a table, or None where they are features
    names : of the features
    """
    if not patterns:
        attributes = np.arange(len(names)) if encoder is None else encoder.attributes_
        halves = len(np.unique(attributes)) >= 2
        return random_split(2, attributes=None if encoder is None else attributes) if halves else random_bases(2)
    if encoder is None:
        return views_of_columns(patterns, [str(name) for name in names])
    return of_encoded(views_of_columns(patterns, [column.name for column in encoder.columns_]), encoder.attributes_)


def views_of_columns(patterns: Sequence[str], columns: Sequence[str]) -> Any:
    """Views of the columns of a table, or 2 for random halves where nobody says."""
    if not patterns:
        return 2
    views = [_view(pattern, columns) for pattern in patterns]
    called = [view.name for view in views]
    if len(set(called)) < len(called):
        raise ValueError("--view: two views have the same name")
    return views


def _view(pattern: str, columns: Sequence[str]) -> View:
    named = None if _matching(pattern, columns) else _NAMED.fullmatch(pattern)
    name, globs = (pattern, pattern) if named is None else (named[1], named[2])
    parts = [globs] if globs in columns else [part.strip() for part in globs.split(",") if part.strip()]
    chosen: set[int] = set()
    for part in parts:
        found = _matching(part, columns) or _matching(part.removesuffix("=*"), columns)  # word=*: its categories
        if not found:
            near = near_names(part, columns)
            guess = f"; did you mean {near[0]!r}?" if near else ""
            raise TableError(f"--view {name}: no column is called like {part!r}{guess}")
        chosen |= set(found)
    return View(sorted(chosen), name=name)


def _matching(part: str, names: Sequence[str]) -> list[int]:
    return [at for at, name in enumerate(names) if name == part or fnmatchcase(name, part)]
