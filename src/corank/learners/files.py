"""How a fitted learner becomes a model file and back: `save` for every learner, and `load`.

A kind of learner says what its file holds and how that is checked; `packing` turns values into JSON and arrays,
`persistence` writes those.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from corank.encoder import TableEncoder
from corank.kernels import registered_name
from corank.learners.packing import Packer, Unpacker
from corank.learners.soundness import demand
from corank.persistence import ModelFileError, read_model, write_model

# The only classes that a file can name, and where they live: they are built on this module.
LEARNERS = {
    "RLS": "corank.learners.rls",
    "RankRLS": "corank.learners.rls",
    "CoRLS": "corank.learners.corls",
    "CoRankRLS": "corank.learners.corls",
    "KPCR": "corank.learners.components",
    "KPCRank": "corank.learners.components",
    "MatchingPursuit": "corank.learners.pursuit",
    "RankingPursuit": "corank.learners.pursuit",
    "CoRankingPursuit": "corank.learners.copursuit",
    "TransductiveRankRLS": "corank.learners.transductive",
    "PreferenceGP": "corank.learners.preference",
    "DifferenceGP": "corank.learners.difference",
}

# What every learner's file holds; lists of one entry a view where there are several.
SHARED = {
    "coefficients": "coef_",
    "intercept": "intercept_",
    "level": "_level",
    "alpha": "alpha_",
    "gamma": "gamma_",
    "path": "path_",
    "basis": "basis_",
    "basis_points": "basis_points_",
    "n_columns": "n_features_in_",
    "column_names": "feature_names_in_",
    "with_queries": "_with_queries",
    "rows_seen": "_n_seen",
    "rows_scored": "_n_scored",
    "queries": "_n_queries",
    "rows": "_rows",
    "statistics": "_statistics",
}


@dataclass(frozen=True)
class Contents:
    """What the file of a kind of learner holds.

    fitted : in the file: on the learner. Basis points come before the rows, which may be the same array: it is stored
        once
    check : refuses fitted attributes that do not fit each other
    """

    fitted: Mapping[str, str]
    check: Callable[[Any], None]


class Saveable:
    """`save` for learners.

    Attributes
    ----------
    encoder_ : TableEncoder or None
        What turns a table into the features of this model: set by `load` where the file holds one, None after `fit`.
    table_ : dict or None
        What `corank fit` remembers of its table: the names of the score and query columns, numbers of rows.
    """

    _contents: ClassVar[Contents]
    encoder_: TableEncoder | None = None
    table_: dict[str, str | int | None] | None = None

    def save(
        self, path: str | os.PathLike[str], *, overwrite: bool = False, encoder: TableEncoder | None = None
    ) -> None:
        """Save the model as one file of arrays and JSON, which `corank.load` reads on any machine.

        The file holds what `predict` and `update` need: parameters, coefficients, basis rows and, for a model on all
        its rows, their scores, queries and weights. Models on tensors are saved, and load, as NumPy. A `cv` splitter,
        a random state that is no number and the `dictionary` that atoms were picked from are for training only and
        load as None. `unscored_effect_` is saved where it was asked for before.

        Parameters
        ----------
        path : path
            By custom `name.corank`.
        overwrite : bool
            Whether a file that is already there may be replaced; else that is a FileExistsError.
        encoder : TableEncoder, default=None
            Fitted; stored with the model and found as `encoder_` after loading. None keeps the `encoder_` of a model
            that was loaded with one. Of any other preprocessing, such as a scikit-learn Pipeline, only the learner at
            its end can be saved here; for the whole of it see skops (https://skops.readthedocs.io).
        """
        check_is_fitted(self)
        name = type(self).__name__
        if _learner(name) is not type(self):
            raise TypeError(f"save knows {', '.join(LEARNERS)}, not {name}; see skops for other estimators.")
        encoder = self.encoder_ if encoder is None else encoder
        packer = Packer()
        header: dict[str, Any] = {"learner": name}
        header["parameters"], training_only = _packed_parameters(self, packer)
        header["fitted"] = {
            word: packer.pack(getattr(self, attribute, None), word) for word, attribute in self._contents.fitted.items()
        }
        header["summary"] = {**self._summary(), **training_only}
        header["encoder"] = None if encoder is None else _packed_encoder(encoder, self, packer)
        header["table"] = None if self.table_ is None else dict(self.table_)
        write_model(path, header, packer.arrays, overwrite=overwrite)

    def _summary(self) -> dict[str, int]:
        """The rows behind the model, for whoever looks into the file."""
        raise AssertionError("a learner says what it was fitted on")


def load(path: str | os.PathLike[str]) -> Any:
    """Load a model that was saved with `save`.

    Nothing in the file is executed. A model with a kernel of your own needs `register_kernel` to be called first.

    Parameters
    ----------
    path : path

    Returns
    -------
    RLS, RankRLS, CoRLS, CoRankRLS, …
        The fitted learner, with NumPy arrays; `encoder_` is the TableEncoder that was saved with it, or None.

    Raises
    ------
    FileNotFoundError, IsADirectoryError
        There is no such file.
    ModelFileError
        A ValueError that says what is wrong with the file.
    """
    header, arrays = read_model(path)
    try:
        return _rebuilt(header, arrays)
    except ModelFileError as error:
        raise ModelFileError(f"{path}: {error}") from error
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError, MemoryError) as error:
        raise ModelFileError(f"{path}: the model file does not make sense: {error}") from error


def _learner(name: object) -> Any:
    """The class of this name, if a file may name it."""
    known = isinstance(name, str) and name in LEARNERS
    return getattr(import_module(LEARNERS[str(name)]), str(name)) if known else None


# ---- to the file


def _packed_parameters(learner: Any, packer: Packer) -> tuple[dict[str, Any], dict[str, str]]:
    """The parameters, and in words those that matter for training only and do not go into a file."""
    parameters, in_words = learner.get_params(deep=False), {}
    for name in ("cv", "random_state", "dictionary"):
        value = parameters.get(name)
        if name == "dictionary" and (registered := registered_name(value)) is not None:
            parameters[name] = registered
        elif value is not None and not isinstance(value, Integral | str) and not _is_rows(name, value):
            splits = name == "cv" and isinstance(value, list | tuple)
            in_words[name] = f"{len(value)} splits" if splits else " ".join(repr(value).split())[:200]
            parameters[name] = None
    return {name: packer.pack(value, name) for name, value in parameters.items()}, in_words


def _is_rows(name: str, value: Any) -> bool:
    """Whether a dictionary is a list of row numbers, which a file can hold."""
    return name == "dictionary" and isinstance(value, list | np.ndarray) and np.ndim(value) == 1


def _packed_encoder(encoder: Any, learner: Any, packer: Packer) -> Any:
    if not isinstance(encoder, TableEncoder):
        raise TypeError(
            f"encoder must be a corank.TableEncoder, got {type(encoder).__name__}; a model file holds no other "
            "preprocessing: save a whole pipeline with skops (https://skops.readthedocs.io)."
        )
    header, arrays = encoder.to_state()
    if len(encoder.attributes_) != learner.n_features_in_:
        raise ValueError(
            f"encoder makes {len(encoder.attributes_)} columns, but the model was fitted on {learner.n_features_in_}."
        )
    packer.arrays.update({f"encoder.{name}": array for name, array in arrays.items()})
    return header


# ---- from the file


def _rebuilt(header: dict[str, Any], arrays: dict[str, Any]) -> Any:
    kind = _learner(header.get("learner"))
    if kind is None:
        raise ModelFileError(
            f"the model is a {str(header.get('learner'))[:40]!r}; this corank knows {', '.join(LEARNERS)}"
        )
    parameters: Any = header.get("parameters")
    fitted: Any = header.get("fitted")
    contents: Contents = kind._contents
    demand(isinstance(parameters, dict) and isinstance(fitted, dict) and set(fitted) == set(contents.fitted), "header")
    demand(set(parameters) == set(kind().get_params()), "list of parameters")
    unpacker = Unpacker(arrays)
    learner = kind(**{key: unpacker.unpack(value) for key, value in parameters.items()})
    for word, attribute in contents.fitted.items():
        value = unpacker.unpack(fitted[word])
        if value is not None or attribute != "feature_names_in_":
            setattr(learner, attribute, value)
    contents.check(learner)
    for note in (header.get("summary"), header.get("table") or {}):
        demand(
            isinstance(note, dict) and all(isinstance(v, str | int | None) for v in note.values()), "note on the data"
        )
    learner.table_ = header.get("table")
    learner.encoder_ = _unpacked_encoder(header.get("encoder"), arrays, learner)
    return learner


def _unpacked_encoder(header: Any, arrays: dict[str, Any], learner: Any) -> TableEncoder | None:
    if header is None:
        return None
    prefix = "encoder."
    own = {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
    encoder = TableEncoder.from_state(header, own)
    demand(len(encoder.attributes_) == learner.n_features_in_, "table encoder")
    return encoder
