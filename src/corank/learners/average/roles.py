"""Who answered, and about which item: names as codes, and columns of persons, which stand beside the
features of rows; how often an item was answered, which is one more feature; and the settings of an
average, which say which columns these are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Annotated, Any, Self

import narwhals as nw
import numpy as np
from scipy import sparse

from corank.core.arrays import Array, FloatArray, Index, is_sparse, take, to_numpy
from corank.core.kernels import is_named
from corank.core.messages import ArgumentError, count, did_you_mean, warn_user
from corank.core.storable import TEXT, floats, later, several, storable
from corank.core.views import View, are_by_name, encoded_views, read_views
from corank.encode.encoder import TableEncoder
from corank.inputs import is_frame, is_matrix_of_numbers
from corank.learners.average.encoding import IDENTITY, PERSON, KernelColumns, views_of_kernels
from corank.learners.average.scored_table import AverageSettings, ScoredTable
from corank.learners.parameters import seed

NOBODY = -1  # the code of a person who is not known
FEW_DECIMALS = 2  # that names may have: numbers with more are measurements
FORGOTTEN = ""  # stands for the name of a person who was removed


@storable("Roles")
@dataclass(frozen=True)
class PersonsAndItems:
    """What a model knows of persons and items: a name's place is its code.

    persons, items : None where they were not given
    columns : names of the columns that hold them in a table, "" where labels were given
    counts : (i,) how often every item was answered, None where that is no feature
    of_persons : (p, k) columns of the persons, 0 in the mean, None without
    scales : (2, k) what was taken from columns of persons, and what they were divided by
    """

    persons: Annotated[list[str] | None, several(TEXT, ".p") | None]
    items: Annotated[list[str] | None, several(TEXT, ".i") | None]
    columns: Annotated[Sequence[str], several(TEXT)]
    counts: Annotated[FloatArray | None, floats(".i") | None] = None
    of_persons: Annotated[FloatArray | None, floats(".p", ".k") | None] = None
    scales: Annotated[FloatArray | None, later(floats("_", ".k"))] = None

    @property
    def n_columns(self) -> int:
        """How many columns they are."""
        numbers = [self.counts, self.items, self.persons]
        return sum(each is not None for each in numbers) + self.n_of_persons

    @property
    def n_of_persons(self) -> int:
        """How many columns of persons there are."""
        return 0 if self.of_persons is None else self.of_persons.shape[1]

    @property
    def names_of_columns(self) -> list[str]:
        """What the columns are called."""
        names = ["how often it was answered"] if self.counts is not None else []
        names += ["which item it is"] if self.items is not None else []
        names += ["who answers"] if self.persons is not None else []
        return names + ["columns of the person"] * self.n_of_persons

    def places(self, width: int) -> tuple[list[int], list[int], list[int]]:
        """The numbers of the columns of the item, of the person and of its columns, beside `width`
        features.
        """
        first = width + (self.counts is not None)
        item = [first] if self.items is not None else []
        person = [first + len(item)] if self.persons is not None else []
        last = first + len(item) + len(person)
        return item, person, list(range(last, last + self.n_of_persons))

    def with_numbers(self) -> PersonsAndItems:
        """With numbers in place of the names of persons."""
        if self.persons is None:
            return self
        return replace(self, persons=[name and str(code) for code, name in enumerate(self.persons)])

    def codes(self, labels: Sequence[Any] | None, n: int, role: str) -> Index:
        """Codes (n,) of names: new ones follow those that are known, those of rows without a name
        are below 0. Items without a name differ from each other.
        """
        unknown = np.full(n, NOBODY) if role == "person" else -1 - np.arange(n)
        if labels is None:
            return unknown
        names = (self.persons if role == "person" else self.items) or []
        places: dict[Any, int] = {name: code for code, name in enumerate(names)}
        for label in labels:
            if label is not None:
                places.setdefault(label, len(places))
        found = np.asarray([places.get(label, -1) for label in labels], dtype=np.int64)
        return np.where(found < 0, unknown, found)

    def beside(
        self,
        features: Array,
        labels: RowLabels,
        scored: FloatArray | None = None,
        of_persons: FloatArray | None = None,
    ) -> Array:
        """Features (n, d), and beside them the columns of the roles: (n, d + n_columns).

        scored : (n,) how often a row itself is among the answers that were counted
        of_persons : (n, k) columns of the persons of the rows, where these are given
        """
        n = features.shape[0]
        parts: list[FloatArray] = []
        items = self.codes(labels.item, n, "item")
        if self.counts is not None:
            often = of_known(self.counts, items)
            parts.append(np.log1p(np.maximum(often - (0 if scored is None else scored), 0.0)))
        if self.items is not None:
            parts.append(items.astype(np.float64))
        if self.persons is not None:
            persons = self.codes(labels.person, n, "person")
            parts.append(persons.astype(np.float64))
            if self.of_persons is not None:
                known = of_known(self.of_persons, persons)
                parts += list((known if of_persons is None else of_persons).T)
        beside = np.column_stack(parts) if parts else np.empty((n, 0))
        if is_sparse(features):
            return sparse.csr_array(sparse.hstack([features, sparse.csr_array(beside)]))
        return np.hstack([features, beside])

    def counted(self, items: Index) -> PersonsAndItems:
        """With how often items were answered, from the codes (a,) of all answers; as they are where
        no item comes back.
        """
        counts = np.bincount(items[items >= 0], minlength=len(self.items or []))
        return replace(self, counts=counts.astype(np.float64)) if (counts > 1).any() else self


def of_known(values: FloatArray, codes: Index) -> FloatArray:
    """Values (p, …) of those with the given codes (n,), 0 for those who are not known."""
    padded = np.concatenate([values, np.zeros((1, *values.shape[1:]))])
    return padded[np.where((codes >= 0) & (codes < len(values)), codes, len(values))]


@dataclass(frozen=True)
class RowLabels:
    """The names of persons and items of rows, None where they are not given, and the table without
    the columns that they are.
    """

    person: list[str | None] | None = None
    item: list[str | None] | None = None
    columns: tuple[str, str] = ("", "")

    def followed_by(self, others: RowLabels, n: int, m: int) -> RowLabels:
        """The names of n rows, and of m other rows after them."""

        def joined(first: list[str | None] | None, second: Any) -> list[str | None] | None:
            if first is None and second is None:
                return None
            return (first or [None] * n) + (second or [None] * m)

        return RowLabels(
            joined(self.person, others.person), joined(self.item, others.item), self.columns
        )

    def followed_by_items(self, others: RowLabels, n: int, m: int) -> RowLabels:
        """As `followed_by`, where persons are those of comparisons."""
        joined = replace(self, person=None).followed_by(replace(others, person=None), n, m)
        return replace(joined, person=self.person)

    def take(self, rows: Index) -> RowLabels:
        """The names of some rows."""

        def chosen(names: list[str | None] | None) -> list[str | None] | None:
            return None if names is None else [names[row] for row in rows.tolist()]

        return replace(self, person=chosen(self.person), item=chosen(self.item))


def read_roles(X: Any, person: Any, item: Any, *, n: int | None = None) -> tuple[Any, RowLabels]:
    """The names of `person=` and `item=`, and X without the columns that they name.

    n : number of labels of persons, where these are not those of rows
    """
    if person is None and item is None:
        return X, RowLabels()
    rows = n_rows(X)
    columns = []
    names = []
    for role, given in (("person", person), ("item", item)):
        column = given if isinstance(given, str) else ""
        columns.append(column)
        if column:
            given = _column(X, column, role)
        size = n if n is not None and role == "person" else rows
        names.append(None if given is None else read_names(given, size, role))
    X = without_columns(X, columns)
    return X, RowLabels(names[0], names[1], (columns[0], columns[1]))


def without_columns(X: Any, columns: Sequence[str]) -> Any:
    """A table without some of its columns; with one that says nothing where no other is left."""
    if not is_frame(X) or not any(columns):
        return X
    frame = nw.from_native(X, eager_only=True)
    kept = [name for name in frame.columns if name not in columns]
    return frame.select(kept).to_native() if kept else np.zeros((len(frame), 1))


def n_rows(X: Any) -> int:
    """The number of rows of a table or a matrix."""
    shape = getattr(X, "shape", None)
    return int(shape[0]) if shape else len(X)


def _column(X: Any, name: str, role: str) -> Any:
    if not is_frame(X):
        raise ArgumentError(
            role, f"={name!r} names a column, but X is no table: give one label per row."
        )
    frame = nw.from_native(X, eager_only=True)
    if name not in frame.columns:
        near = did_you_mean(name, map(str, frame.columns))
        raise ArgumentError(role, f"={name!r} is no column of X{near}.")
    return frame[name].to_list()


def read_names(given: Any, n: int, role: str) -> list[str | None]:
    """Labels of n rows as names, None where there is none; 7, 7.0 and "7" are one name, and blanks
    around names do not count.
    """
    if np.ndim(given) == 0:
        raise ArgumentError(
            role, f" must be one label per row, or the name of a column, got {given!r}."
        )
    labels = to_numpy(given).tolist() if hasattr(given, "__array__") else list(given)
    if len(labels) != n:
        raise ArgumentError(role, f" has {len(labels)} labels, but {n} are needed.")
    names: dict[Any, str | None] = {}
    for label in labels:
        if label not in names:
            names[label] = _name(label, role)
    spelled: dict[str, set[str]] = {}
    for label, name in names.items():
        if name is not None and isinstance(label, str):
            spelled.setdefault(name, set()).add(label)
    several_ways = [sorted(ways) for ways in spelled.values() if len(ways) > 1]
    if several_ways:
        warn_user(
            f"{role}: {count(len(several_ways), 'name')} differ from others by blanks alone, such"
            f" as {' and '.join(map(repr, several_ways[0][:2]))}; they count as the same."
        )
    return [names[label] for label in labels]


def _name(label: Any, role: str) -> str | None:
    if label is None or label != label:  # noqa: PLR0124, NaN is not itself
        return None
    if isinstance(label, float):
        if round(label, FEW_DECIMALS) != label:
            raise ArgumentError(
                role,
                f" holds numbers such as {label!r}, which are no names: give one label per row, text"
                " or whole numbers.",
            )
        return str(int(label)) if label.is_integer() else repr(label)
    return str(label).strip() or None


def known_names(names: Sequence[str | None]) -> list[str]:
    """The names that there are, each once, in order of first appearance."""
    return [name for name in dict.fromkeys(names) if name is not None]


def check_persons(names: Sequence[str | None], scored: Index) -> list[str]:
    """The persons who answered; refused where they say nothing.

    scored : numbers of the rows with a score, or of the comparisons
    """
    of_scores = [names[row] for row in scored.tolist()]
    answered = known_names(of_scores)
    if not answered:
        raise ArgumentError("person", " has no label: no row with a score says who gave it.")
    if len(answered) == len(of_scores) and len(of_scores) > 1:
        raise ArgumentError(
            "person",
            f" has {len(answered)} names for {len(of_scores)} answers: where everybody answers once,"
            " nobody's own order can be learned; leave it out.",
        )
    silent = len(known_names(names)) - len(answered)
    if len(answered) == 1:
        warn_user(
            f"person: all answers are those of {answered[0]!r}, so there is nobody to differ from."
        )
    if silent:
        warn_user(f"person: {count(silent, 'person')} without a score; their order is that of all.")
    return answered


# ---------------------------------------------------------------- columns of persons


def read_persons(persons: Any, column: str) -> tuple[list[str | None], Any]:
    """The names in a table of persons, and their columns.

    persons : a frame, with a column of names that is called as the persons are in X, or else is its
        index (pandas) or its first column; or a dict of names to numbers
    """
    if isinstance(persons, dict):
        return read_names(list(persons), len(persons), "persons"), np.asarray(
            [np.atleast_1d(numbers) for numbers in persons.values()], dtype=np.float64
        )
    if not is_frame(persons):
        raise ArgumentError(
            "persons",
            f" must be a table with one row per person, or a dict of names, got"
            f" {type(persons).__name__}.",
        )
    frame = nw.from_native(persons, eager_only=True)
    if column not in frame.columns and hasattr(persons, "index"):
        labels, rest = list(persons.index), persons
    else:
        column = column if column in frame.columns else frame.columns[0]
        labels, rest = frame[column].to_list(), without_columns(persons, [column])
    names = read_names(labels, len(frame), "persons")
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ArgumentError(
            "persons", f" has several rows for {twice!r}; one per person is needed."
        )
    return names, rest


def persons_encoder(columns: Any) -> TableEncoder | None:
    """What turns columns of persons into numbers, fitted; None where they are numbers."""
    if not is_frame(columns) or is_matrix_of_numbers(columns):
        return None
    return TableEncoder().fit(columns)


def with_columns_of_persons(
    roles: PersonsAndItems, names: Sequence[str | None], columns: Any, encoder: TableEncoder | None
) -> PersonsAndItems:
    """PersonsAndItems with the columns of their persons.

    names : (q,) of the rows of the table of persons; columns : (q, k) theirs
    """
    matrix = numbers_of(columns, encoder)
    places = {name: row for row, name in enumerate(names)}
    rows = np.asarray([places.get(name, -1) for name in roles.persons or []], dtype=np.int64)
    known = rows >= 0
    if not known.any():
        raise ArgumentError("persons", ": its table has none of the persons of X.")
    if not known.all():
        missing = [
            name for name, is_there in zip(roles.persons or [], known, strict=True) if not is_there
        ]
        warn_user(
            f"persons: {count(len(missing), 'person')} of X without a row, such as {missing[0]!r};"
            " their columns count as the mean of the others."
        )
    centre = matrix[rows[known]].mean(axis=0)
    spread = matrix[rows[known]].std(axis=0)
    kept = spread > 0
    if not kept.any():
        raise ArgumentError("persons", ": no column differs between the persons of X.")
    # a flag is as large as a number of spread 1 where half of the persons have it, else smaller
    flags = np.isin(matrix, (0.0, 1.0)).all(axis=0)
    size = np.where(kept, np.where(flags, 0.5, spread), np.inf)
    scales = np.stack([centre, np.where(np.isfinite(size), size, 1e100)])
    of_persons = np.zeros((len(rows), matrix.shape[1]))
    of_persons[known] = (matrix[rows[known]] - scales[0]) / scales[1]
    return replace(roles, of_persons=of_persons, scales=scales)


def numbers_of(columns: Any, encoder: TableEncoder | None) -> FloatArray:
    """Columns of persons as numbers: (q, k)."""
    if encoder is not None:
        return encoder.transform(columns)
    matrix = np.asarray(
        nw.from_native(columns, eager_only=True).to_numpy() if is_frame(columns) else columns,
        dtype=np.float64,
    )
    if matrix.ndim != 2 or not np.isfinite(matrix).all():
        raise ArgumentError("persons", " must hold finite numbers, or text and dates in a table.")
    return matrix


# ---------------------------------------------------------------- beside features


def read_roles_of(unscored: Any, labels: RowLabels) -> tuple[Any, RowLabels]:
    """The names in a table of unscored rows, and the table without the columns that they are in."""
    person, item = labels.columns
    if unscored is None or not is_frame(unscored):
        return unscored, RowLabels()
    there = nw.from_native(unscored, eager_only=True).columns
    return read_roles(
        unscored, person if person in there else None, item if item in there else None
    )


def with_role_columns(
    table: ScoredTable, labels: RowLabels, persons: Any
) -> tuple[ScoredTable, PersonsAndItems | None, TableEncoder | None]:
    """A table with columns that say who answered, and about which item, beside its features; what
    they mean; and what makes numbers of columns of persons.
    """
    scored = table.scored
    if labels.person is not None:
        check_persons(labels.person, scored)
    roles, encoder = learned_roles(labels, persons)
    if roles is None:
        return table, None, None
    n, queries, own = len(table.scores), table.queries, np.zeros(len(table.scores))
    own[scored] = 1.0
    if roles.items is not None:
        roles = roles.counted(roles.codes(labels.item, n, "item")[scored])
    if queries is None and roles.persons is not None:
        queries = roles.codes(labels.person, n, "person") + 1
    features = roles.beside(table.features, labels, scored=own)
    return replace(table, features=features, queries=queries), roles, encoder


def learned_roles(
    labels: RowLabels, persons: Any
) -> tuple[PersonsAndItems | None, TableEncoder | None]:
    """The names that there are, with columns of the persons, and what makes numbers of those."""
    if labels.person is None and persons is not None:
        raise ArgumentError("persons", " was given without person=, who gave every answer.")
    if labels.person is None and labels.item is None:
        return None, None
    roles = PersonsAndItems(
        persons=None if labels.person is None else known_names(labels.person),
        items=None if labels.item is None else known_names(labels.item),
        columns=list(labels.columns),
    )
    if persons is None:
        return roles, None
    names, columns = read_persons(persons, labels.columns[0])
    encoder = persons_encoder(columns)
    return with_columns_of_persons(roles, names, columns, encoder), encoder


def answers_of_persons(
    numbers: Array, pairs: tuple[Array, ...], labels: RowLabels
) -> tuple[Array, tuple[Array, ...], Index, RowLabels]:
    """Rows (n, d), and after them one per item and person who compared it; comparisons between
    those; the numbers (m,) that rows had before; and who they are.

    pairs : winners, losers, margins and weights; labels : of the items, and of the comparisons
    """
    n = numbers.shape[0]
    if labels.person is None:
        return numbers, pairs, np.arange(n), labels
    names = check_persons(labels.person, np.arange(len(labels.person)))
    places = {name: code for code, name in enumerate(names)}
    persons = np.asarray([places.get(str(name), len(names)) for name in labels.person])
    ends = np.concatenate(
        [pairs[0] * (len(names) + 1) + persons, pairs[1] * (len(names) + 1) + persons]
    )
    answers, codes = np.unique(ends, return_inverse=True)
    rows, whose = np.divmod(answers, len(names) + 1)
    given = np.concatenate([np.arange(n), rows])
    codes = n + codes
    p = len(persons)
    known = [*names, None]
    of_rows = RowLabels(item=labels.item).take(given)
    person = [None] * n + [known[code] for code in whose.tolist()]
    joined = replace(of_rows, person=person, columns=labels.columns)
    return take(numbers, given), (codes[:p], codes[p:], *pairs[2:]), given, joined


def labels_of(
    roles: PersonsAndItems | None, X: Any, person: Any, item: Any
) -> tuple[Any, RowLabels]:
    """The names of new rows, and X without the columns that held names in `fit`."""
    if roles is None:
        for role, given in (("person", person), ("item", item)):
            if given is not None:
                raise ArgumentError(role, f": the model was fitted without; give {role}= to fit.")
        return X, RowLabels()
    if person is not None and roles.persons is None:
        raise ArgumentError("person", ": the model was fitted without; give person= to fit.")
    if item is not None and roles.items is None:
        raise ArgumentError("item", ": the model was fitted without; give item= to fit.")
    there = nw.from_native(X, eager_only=True).columns if is_frame(X) else []
    if item is None and roles.columns[1] in there:
        item = roles.columns[1]
    is_one = person is not None and np.ndim(person) == 0
    if is_one and not (isinstance(person, str) and person in there):
        person = [person] * n_rows(X)
    X, labels = read_roles(X, person, item)
    return without_columns(X, [name for name in roles.columns if name in there]), labels


def more_answers(
    table: ScoredTable,
    roles: PersonsAndItems,
    labels: RowLabels,
    persons: Any,
    encoder: TableEncoder | None,
    *,
    counted: bool,
) -> tuple[ScoredTable, PersonsAndItems]:
    """A table of new answers with the columns of items and persons, and the roles with theirs.

    counted : whether they count among those that say how often items were answered
    """
    n, scored = len(table.scores), table.scored
    of_persons = persons_at(roles, labels, persons, encoder)
    if roles.items is not None and labels.item is not None:
        items = known_names([*roles.items, *labels.item])
        roles = replace(roles, items=items)
        if roles.counts is not None:
            answered = roles.codes(labels.item, n, "item")[scored]
            counts = np.bincount(answered[answered >= 0], minlength=len(items)) * float(counted)
            counts[: len(roles.counts)] += roles.counts
            roles = replace(roles, counts=counts.astype(np.float64))
    if roles.persons is not None and labels.person is not None:
        names = known_names([*roles.persons, *labels.person])
        if roles.of_persons is not None:
            more = np.zeros((len(names) - len(roles.persons), roles.n_of_persons))
            columns = np.concatenate([roles.of_persons, more])
            if of_persons is not None:
                columns[roles.codes(labels.person, n, "person")] = of_persons
            roles = replace(roles, of_persons=columns)
        roles = replace(roles, persons=names)
    own = np.zeros(n)
    own[scored] = float(counted)
    return replace(table, features=roles.beside(table.features, labels, scored=own)), roles


def forgotten(
    roles: PersonsAndItems | None, person: str, scored: Mapping[str, Array] | None
) -> tuple[int, PersonsAndItems]:
    """The code of a person, and the roles without name and columns of the person, and without items
    that nobody else has answered about.

    scored : encoded rows that were counted among the answers, None where none were
    """
    names = [] if roles is None else roles.persons or []
    if roles is None or not person or person not in names:
        near = did_you_mean(str(person), names)
        raise ArgumentError("forget", f": the model knows nobody called {person!r}{near}.")
    code = names.index(person)
    roles = _without_answers(roles, code, scored or {})
    kept = [FORGOTTEN if name == person else name for name in names]
    columns = roles.of_persons
    if columns is not None:
        columns = columns.copy()
        columns[code] = 0.0
    return code, replace(roles, persons=kept, of_persons=columns)


def _without_answers(
    roles: PersonsAndItems, code: int, scored: Mapping[str, Array]
) -> PersonsAndItems:
    """The roles without what the answers of a person say of items."""
    if roles.items is None or IDENTITY not in scored:
        return roles
    items = scored[IDENTITY][:, 0].astype(np.int64)
    is_own = scored[PERSON][:, 0] == code
    size = len(roles.items)
    own, others = (
        np.bincount(items[chosen & (items >= 0)], minlength=size) for chosen in (is_own, ~is_own)
    )
    kept = [
        FORGOTTEN if own[number] and not others[number] else name
        for number, name in enumerate(roles.items)
    ]
    counts = roles.counts
    if counts is not None:
        counts = np.maximum(counts - own, 0.0)
    return replace(roles, items=kept, counts=counts)


def persons_at(
    roles: PersonsAndItems, labels: RowLabels, persons: Any, encoder: TableEncoder | None
) -> FloatArray | None:
    """Columns (n, k) of the persons of rows, from a table of persons where one is given."""
    if persons is None:
        return None
    if roles.of_persons is None or roles.scales is None or labels.person is None:
        raise ArgumentError(
            "persons",
            " goes with the names of persons, in a model that was fitted with persons= too.",
        )
    names, columns = read_persons(persons, roles.columns[0])
    matrix = (numbers_of(columns, encoder) - roles.scales[0]) / roles.scales[1]
    if matrix.shape[1] != roles.n_of_persons:
        raise ArgumentError(
            "persons",
            f" has {count(matrix.shape[1], 'column')}, but the model knows"
            f" {count(roles.n_of_persons, 'column')} of persons.",
        )
    given = {name: row for row, name in enumerate(names)}
    known = dict(zip(roles.persons or [], roles.of_persons, strict=True))
    nothing = np.zeros(roles.n_of_persons)
    rows = [
        matrix[given[name]] if name in given else known.get(str(name), nothing)
        for name in labels.person
    ]
    return np.stack(rows)


class KnowsPersons:
    """What the two averages say of the persons who answered."""

    _roles: PersonsAndItems | None

    @property
    def _answers(self) -> Sequence[Mapping[str, Array]] | None:
        """The encoded answers that were learned from, None where they are not kept."""
        raise AssertionError("an average says what it has kept")

    @property
    def persons_(self) -> list[str] | None:
        """The names of the persons who answered, None where these are not known."""
        if self._roles is None or self._roles.persons is None:
            return None
        return [name for name in self._roles.persons if name != FORGOTTEN]

    @property
    def n_columns_of_persons(self) -> int:
        """How many columns of persons the model knows."""
        return 0 if self._roles is None else self._roles.n_of_persons

    def _without_names(self) -> Self:
        model = copy(self)
        if self._roles is not None:
            model._roles = self._roles.with_numbers()
        return model

    def answered_by(self, person: str) -> list[str] | None:
        """The items that a person has answered about; None where the model does not know items, or
        has not kept its answers.
        """
        roles, kept = self._roles, self._answers
        if roles is None or roles.items is None or roles.persons is None or kept is None:
            return None
        number = roles.persons.index(person)
        codes = [
            rows[IDENTITY][rows[PERSON][:, 0] == number, 0]
            for rows in kept
            if IDENTITY in rows and PERSON in rows
        ]
        if not codes:
            return None
        known = np.concatenate(codes).astype(np.int64).tolist()
        return [roles.items[code] for code in known if code >= 0]


# ---------------------------------------------------------------- settings


def settings_of(
    learner: Any,
    encoder: TableEncoder | None,
    roles: PersonsAndItems | None,
    kernel_columns: Sequence[KernelColumns] | None,
    width: int | None,
    *,
    ranks: bool,
) -> AverageSettings:
    """Parameters, checked; views are those of the kinds of columns that an encoder found, unless they
    are given.

    kernel_columns : of kernels of the user's own; width : how many columns there are before those of
        items and persons
    """
    views: Sequence[View] = ()
    kinds: Sequence[str] = ()
    number = seed(learner.random_state)
    everything = [] if encoder is None else encoder.groups_
    groups = [group for group in everything if group.kind != "identity"]
    found = [] if encoder is None else encoder.views()
    if is_named(learner.views, "kinds"):
        if len(groups) < 2:
            raise ValueError(
                "views='kinds' needs a table with columns of more than one kind: text, vectors,"
                " and numbers with categories."
            )
        views = found
    elif learner.views is not None:
        views = _declared_views(learner, encoder, np.random.default_rng(number))
    elif any(group.kind != "table" for group in groups):
        views = found
        kinds = [group.kind for group in groups]
        if roles is not None and roles.counts is not None and width is not None:
            views = [*views, View(np.asarray([width]), name="how often it was answered")]
            kinds = [*kinds, "table"]
    identity = [int(at) for group in everything if group.kind == "identity" for at in group.columns]
    settings = AverageSettings(
        ranks=ranks,
        fit_intercept=bool(learner.fit_intercept),
        views=views and views_of_kernels(views, kernel_columns),
        kinds=kinds,
        groups=[group.columns for group in groups if group.kind != "table"],
        candidates=learner.candidates,
        seed=number,
        identity=identity,
    )
    if roles is None or width is None:
        return settings
    item, person, of_persons = roles.places(width)
    return replace(
        settings,
        identity=item or identity,
        unused=identity if item else (),
        person=person,
        of_persons=of_persons,
        n_roles=roles.n_columns,
        by_person=len(person) > 0 and not learner.with_queries,
    )


def _declared_views(
    learner: Any, encoder: TableEncoder | None, rng: np.random.Generator
) -> Sequence[View]:
    """The views that were given, by columns of the features; names are those of a table's columns."""
    if encoder is None or not are_by_name(learner.views):
        names = learner.feature_names
        return read_views(learner.views, learner.n_features_in_, names, rng)
    names = encoder.feature_names_in_
    views: Sequence[View] = encoded_views(
        read_views(learner.views, len(names), names, rng), encoder.attributes_
    )
    return views
