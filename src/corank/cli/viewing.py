"""Views by the names of columns: `--view text='text_*' --view image='img_*'`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Any

import numpy as np

from corank.encoder import TableEncoder
from corank.tables import TableError, near_names
from corank.views import View, random_bases, random_split

_NAMED = re.compile(r"([\w .-]+)=(.+)")


def views_of(patterns: Sequence[str], encoder: TableEncoder | None, names: Sequence[str]) -> Any:
    """Views of the columns that are called so, or two halves of the columns.

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
    views = [_view(pattern, encoder, [str(name) for name in names]) for pattern in patterns]
    called = [view.name for view in views]
    if len(set(called)) < len(called):
        raise ValueError("--view: two views have the same name")
    return views


def _view(pattern: str, encoder: TableEncoder | None, names: list[str]) -> View:
    columns = names if encoder is None else [column.name for column in encoder.columns_]
    owners = np.arange(len(names)) if encoder is None else np.asarray(encoder.attributes_)
    named = None if pattern in columns else _NAMED.fullmatch(pattern)
    if named is not None and _matching([pattern], names):  # such as kind=poetry, which is a feature
        named = None
    name, globs = (pattern, pattern) if named is None else (named[1], named[2])
    parts = [globs] if globs in columns else [part.strip() for part in globs.split(",") if part.strip()]
    chosen: set[int] = set()
    for part in parts:
        own, own_features = _matching([part], columns), _matching([part], names)
        if not own and not own_features:
            near = near_names(part, columns)
            guess = f"; did you mean {near[0]!r}?" if near else ""
            raise TableError(f"--view {name}: no column is called like {part!r}{guess}")
        chosen |= set(np.flatnonzero(np.isin(owners, own)).tolist()) if own else set(own_features)
    if not chosen:
        raise TableError(f"--view {name}: none of its columns is learned from, as all are constant, empty or names")
    return View(sorted(chosen), name=name)


def _matching(parts: Sequence[str], names: Sequence[str]) -> list[int]:
    return [at for at, name in enumerate(names) if any(name == part or fnmatchcase(name, part) for part in parts)]
