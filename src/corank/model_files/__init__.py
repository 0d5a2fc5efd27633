"""Model files: `save` for every learner, and `load`.

`container` reads and writes one file of arrays and JSON, `packing` turns values into those, and
`schema` declares what the file of every learner holds.
"""

from __future__ import annotations

import os
import warnings
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from corank.core.registry import learner_class, stored_learners
from corank.core.storable import ModelFileError, function_name
from corank.core.stored_fields import Sizes
from corank.encode.encoder import KINDS, OPTIONS, SCALING, TableEncoder
from corank.model_files.container import is_inner, read_model, write_model
from corank.model_files.packing import Packer, Unpacker
from corank.model_files.schema import (
    ENCODER,
    ENCODER_ARRAYS,
    TEXT_ARRAYS,
    VECTOR_ARRAYS,
    Contents,
    check_contents,
    demand,
)
from corank.tables import LARGEST


class Saveable:
    """`save` for learners.

    Attributes
    ----------
    encoder_ : TableEncoder or None
        What turns a table into the features of this model: set by `load` where the file holds one,
        None after `fit`.
    table_ : dict or None
        What `corank fit` remembers of its table: the names of the score and query columns, numbers
        of rows.
    """

    _contents: ClassVar[Contents]
    encoder_: TableEncoder | None = None
    table_: dict[str, str | int | None] | None = None
    _is_loaded: bool = False  # whether it came from a file
    _n_seen: int
    _n_scored: int
    _n_queries: int

    def save(
        self,
        path: str | os.PathLike[str],
        *,
        overwrite: bool = False,
        encoder: TableEncoder | None = None,
    ) -> None:
        """Save the model as one file of arrays and JSON, which `corank.load` reads on any machine.

        The file holds what `predict` and `update` need: parameters, coefficients, basis rows and,
        for a model on all its rows, their scores, queries and weights. Models on tensors are saved,
        and load, as NumPy. A `cv` splitter, a random state that is no number and the `dictionary`
        that atoms were picked from are for training only and load as None. `unscored_effect_` is
        saved where it was asked for before. The model of a site that learned with others (`corank
        federated`) holds rows that are not to be shared: its file can be read by its owner alone. A
        file that is replaced keeps its mode.

        Parameters
        ----------
        path : path
            By custom `name.corank`.
        overwrite : bool
            Whether a file that is already there may be replaced; else that is a FileExistsError.
        encoder : TableEncoder, default=None
            Fitted; stored with the model and found as `encoder_` after loading. None keeps the
            `encoder_` of a model that was loaded with one. Of any other preprocessing, such as a
            scikit-learn Pipeline, only the learner at its end can be saved here; for the whole of
            it see skops (https://skops.readthedocs.io).
        """
        check_is_fitted(self)
        name = type(self).__name__
        if name not in stored_learners() or learner_class(name) is not type(self):
            raise TypeError(
                f"save knows {', '.join(stored_learners())}, not {name}; see skops for other"
                " estimators."
            )
        encoder = self.encoder_ if encoder is None else encoder
        packer = Packer()
        header: dict[str, Any] = {"learner": name}
        header["parameters"], training_only = _pack_parameters(self, packer)
        header["fitted"] = {
            stored_as: packer.pack(getattr(self, attribute, None), stored_as)
            for stored_as, (attribute, _) in self._contents.items()
        }
        header["summary"] = {**self.counts(), **training_only}
        header["encoder"] = None if encoder is None else _pack_encoder(encoder, self, packer)
        header["table"] = None if self.table_ is None else dict(self.table_)
        of_a_site = self.table_ is not None and "federated" in self.table_
        write_model(path, header, packer.arrays, overwrite=overwrite, private=of_a_site)

    @property
    def _calls_functions(self) -> bool:
        """Whether predictions call a function of the user's own."""
        return False

    def _restore(self, values: dict[str, Any]) -> None:
        """Take over checked values of a file, by the names of the attributes that they were."""
        for name, value in values.items():
            setattr(self, name, value)

    def counts(self) -> dict[str, int]:
        """The numbers of rows behind the model, for readers of the file."""
        return {"rows": self._n_seen, "scored": self._n_scored, "queries": self._n_queries}


def load(path: str | os.PathLike[str]) -> Any:
    """Load a model that was saved with `save`.

    Nothing in the file is executed. A model with a kernel of your own needs `register_kernel` to be
    called first.

    Parameters
    ----------
    path : path

    Returns
    -------
    RLS, RankRLS, CoRLS, CoRankRLS, …
        The fitted learner, with NumPy arrays; `encoder_` is the TableEncoder that was saved with
        it, or None.

    Raises
    ------
    FileNotFoundError, IsADirectoryError
        There is no such file.
    ModelFileError
        A ValueError that says what is wrong with the file.
    """
    header, arrays = read_model(path)
    try:
        learner = _unpack_learner(header, arrays)
        _try_out(learner)
        return learner
    except ModelFileError as error:
        raise ModelFileError(f"{path}: {error}") from error
    except (
        ValueError,
        TypeError,
        LookupError,
        AttributeError,
        ArithmeticError,
        RecursionError,
        MemoryError,
    ) as error:
        raise ModelFileError(f"{path}: the model file does not make sense: {error}") from error


# ---------------------------------------------------------------- to the file


def _pack_parameters(learner: Any, packer: Packer) -> tuple[dict[str, Any], dict[str, str]]:
    """The parameters, and a description of those that matter for training only and do not go into a
    file.
    """
    parameters = learner.get_params(deep=False)
    if "encoder" in parameters:  # the one that is fitted is stored beside the learner
        parameters["encoder"] = None
    descriptions = {}
    for name in ("cv", "random_state", "dictionary"):
        value = parameters.get(name)
        if name == "dictionary" and (registered := function_name(value)) is not None:
            parameters[name] = registered
        elif name == "dictionary" and isinstance(value, list | np.ndarray) and np.ndim(value) == 1:
            continue  # row numbers, which a file can hold
        elif value is not None and not isinstance(value, Integral | str):
            is_split_list = name == "cv" and isinstance(value, list | tuple)
            descriptions[name] = (
                f"{len(value)} splits" if is_split_list else " ".join(repr(value).split())[:200]
            )
            parameters[name] = None
    return {name: packer.pack(value, name) for name, value in parameters.items()}, descriptions


def _pack_encoder(encoder: Any, learner: Any, packer: Packer) -> Any:
    if not isinstance(encoder, TableEncoder):
        raise TypeError(
            f"encoder must be a corank.TableEncoder, got {type(encoder).__name__}; a model file"
            " holds no other preprocessing: save a whole pipeline with skops"
            " (https://skops.readthedocs.io)."
        )
    header, arrays = encoder.to_state()
    if len(encoder.attributes_) != learner.n_features_in_:
        raise ValueError(
            f"encoder makes {len(encoder.attributes_)} columns, but the model was fitted on"
            f" {learner.n_features_in_}."
        )
    packer.arrays.update({f"encoder.{name}": array for name, array in arrays.items()})
    return header


# ---------------------------------------------------------------- from the file


def _try_out(learner: Any) -> None:
    """Refuse a learner whose values do not go together, as it predicts a row of zeros and says what
    it is.
    """
    learner._is_loaded = True
    if learner._calls_functions:
        return  # a function of the user's own may not take zeros
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for act in (
            lambda: learner.predict(np.zeros((1, learner.n_features_in_))),
            lambda: str(learner.summary()),
        ):
            try:
                act()
            except Exception as error:
                if is_inner(error):
                    raise ModelFileError(
                        f"the model file does not make sense: {error!r}"
                    ) from error


def _unpack_learner(header: dict[str, Any], arrays: dict[str, Any]) -> Any:
    name = header.get("learner")
    if name not in stored_learners():
        raise ModelFileError(
            f"the model is a {str(name)[:40]!r}; this corank knows {', '.join(stored_learners())}"
        )
    learner_type = learner_class(str(name))
    contents: Contents = learner_type._contents
    parameters: Any = header.get("parameters")
    fitted: Any = header.get("fitted")
    demand(
        isinstance(parameters, dict) and isinstance(fitted, dict) and set(fitted) == set(contents),
        "header",
    )
    demand(set(parameters) == set(learner_type().get_params()), "list of parameters")
    unpacker = Unpacker(arrays)
    learner = learner_type(**{key: unpacker.unpack(value) for key, value in parameters.items()})
    values = {
        attribute: unpacker.unpack(fitted[stored_as])
        for stored_as, (attribute, _) in contents.items()
    }
    check_contents(values, contents)
    if values.get("feature_names_in_") is None:
        values.pop("feature_names_in_", None)
    learner._restore(values)
    for note in (header.get("summary"), header.get("table") or {}):
        is_sound = isinstance(note, dict) and all(
            isinstance(value, str | int | None) for value in note.values()
        )
        demand(is_sound, "note on the data")
    learner.table_ = header.get("table")
    learner.encoder_ = _unpack_encoder(header.get("encoder"), arrays, learner)
    return learner


def _unpack_encoder(header: Any, arrays: dict[str, Any], learner: Any) -> TableEncoder | None:
    if header is None:
        return None
    prefix = "encoder."
    encoder_arrays = {
        name.removeprefix(prefix): array
        for name, array in arrays.items()
        if name.startswith(prefix)
    }
    if isinstance(centre := encoder_arrays.get("centre"), np.ndarray):  # version 0.1 keeps no ends
        ends = {"low": np.full(centre.shape, -LARGEST), "high": np.full(centre.shape, LARGEST)}
        encoder_arrays = {**ends, **encoder_arrays}
    header = _as_today(header)
    demand(_is_sound_encoder(header, encoder_arrays), "table encoder")
    encoder = TableEncoder.from_state(header, encoder_arrays)
    demand(len(encoder.attributes_) == learner.n_features_in_, "table encoder")
    return encoder


def _as_today(header: Any) -> Any:
    """The state of an encoder in the form of today.

    Version 0.1 calls categories text. Until numbers with units were read, a column had a
    `date_format` and no `clips`.
    """
    columns = header.get("columns") if isinstance(header, dict) else None
    if not isinstance(columns, list) or not all(isinstance(column, dict) for column in columns):
        return header
    if set(header) == {"max_categories", "scale", "columns"}:
        new = {
            "year": False,
            "season": False,
            "date_format": "",
            "vector": "",
            "words": None,
            "characters": None,
        }
        kinds = {"text": "category"}
        columns = [
            {**new, **column, "kind": kinds.get(column.get("kind"), column.get("kind"))}
            for column in columns
        ]
        header = {**header, **{option: [] for option in OPTIONS}}
    columns = [
        (
            {"clips": False, "format": column["date_format"], **column}
            if "date_format" in column
            else column
        )
        for column in columns
    ]
    columns = [
        {key: value for key, value in column.items() if key != "date_format"} for column in columns
    ]
    return {"identity": [], **header, "columns": columns}


def _is_sound_encoder(header: Any, arrays: dict[str, Any]) -> bool:
    """Whether header and arrays are what `TableEncoder.to_state` gives, of sizes that agree."""
    sizes = Sizes()
    arrays = dict(arrays)
    scaling = {name: arrays.pop(name) for name in SCALING if name in arrays}
    if not ENCODER.fits(header, sizes) or not ENCODER_ARRAYS.fits(scaling, sizes):
        return False
    for position, column in enumerate(header["columns"]):
        text, vector = (
            {
                name.removeprefix(prefix): arrays.pop(name)
                for name in list(arrays)
                if name.startswith(prefix)
            }
            for prefix in (f"text.{position}.", f"vector.{position}.")
        )
        is_text = column["kind"] == "text" and not column["dropped"]
        is_vector = column["kind"] == "vector" and not column["dropped"] and not column["vector"]
        if is_text != bool(text) or is_vector != bool(vector) or column["kind"] not in KINDS:
            return False
        terms = (column["words"], column["characters"])
        if not is_text and terms != (None, None):
            return False
        if is_text and not (
            TEXT_ARRAYS.fits(text, Sizes()) and _are_terms(terms, len(text["idf"]))
        ):
            return False
        if is_vector and not VECTOR_ARRAYS.fits(vector, Sizes()):
            return False
    return not arrays


def _are_terms(terms: tuple[Any, Any], number: int) -> bool:
    """Whether words and character n-grams, by name or hashed, are that many in all, and none comes
    twice.
    """
    counts = [len(set(kind)) if isinstance(kind, list) else kind for kind in terms]
    if None in counts or any(kind < 1 for kind in terms if isinstance(kind, int)):
        return False
    by_name = [kind for kind in terms if isinstance(kind, list)]
    return sum(counts) == number > 0 and all(len(set(kind)) == len(kind) for kind in by_name)
