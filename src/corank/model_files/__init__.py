"""Model files: `save` for every learner, and `load`.

`container` turns values into arrays and JSON and reads and writes one file of those, `schema`
declares what the file of every learner holds, `encoders` stores a table encoder beside a learner,
and `known_answers` marks what a model has learned from.
"""

from __future__ import annotations

import os
import warnings
from dataclasses import fields
from numbers import Integral
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from corank.core.messages import ArgumentError
from corank.core.registry import learner_class, stored_learners
from corank.core.storable import ADDED_LATER, ModelFileError, function_name
from corank.model_files.container import Packer, Unpacker, is_inner, read_model, write_model
from corank.model_files.schema import Contents, check_contents, demand

if TYPE_CHECKING:
    from corank.encode.encoder import TableEncoder


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

    contents: ClassVar[Contents]
    encoder_: TableEncoder | None = None
    persons_encoder_: TableEncoder | None = None
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
        persons: Literal["names", "numbers"] = "names",
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
        persons : "names" or "numbers"
            How persons who answered are called in the file: by their names, or by numbers, "0", "1"
            and so on in the order of `persons_`, so that nobody can read who they are.
        """
        check_is_fitted(self)
        name = type(self).__name__
        if name not in stored_learners() or learner_class(name) is not type(self):
            raise TypeError(
                f"save knows {', '.join(stored_learners())}, not {name}; see skops for other"
                " estimators."
            )
        if persons not in ("names", "numbers"):
            raise ArgumentError("persons", f" must be 'names' or 'numbers', got {persons!r}.")
        if persons == "numbers":
            self._without_names().save(path, overwrite=overwrite, encoder=encoder)
            return
        encoder = self.encoder_ if encoder is None else encoder
        packer = Packer()
        header: dict[str, Any] = {"learner": name}
        header["parameters"], training_only = _pack_parameters(self, packer)
        header["fitted"] = {
            stored_as: packer.pack(getattr(self, attribute, None), stored_as)
            for stored_as, (attribute, _) in self.contents.items()
        }
        header["summary"] = {**self.counts(), **training_only}
        header["encoder"] = None
        if encoder is not None:
            from corank.model_files.encoders import pack_encoder

            n_columns = self.n_features_in_  # type: ignore[attr-defined]
            header["encoder"] = pack_encoder(encoder, n_columns, packer)
        if self.persons_encoder_ is not None:
            from corank.model_files.encoders import pack_encoder

            n_columns, name = len(self.persons_encoder_.attributes_), "persons_encoder"
            header[name] = pack_encoder(self.persons_encoder_, n_columns, packer, name)
        header["table"] = None if self.table_ is None else dict(self.table_)
        of_a_site = self.table_ is not None and "federated" in self.table_
        write_model(path, header, packer.arrays, overwrite=overwrite, private=of_a_site)

    @property
    def n_columns_of_persons(self) -> int:
        """How many columns of persons the model knows."""
        return 0

    def _without_names(self) -> Self:
        """The model with numbers in place of the names of persons."""
        return self

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
    contents: Contents = learner_type.contents
    parameters: Any = header.get("parameters")
    fitted: Any = header.get("fitted")
    needed = {stored_as for stored_as, (_, kind) in contents.items() if not kind.added_later}
    demand(
        isinstance(parameters, dict)
        and isinstance(fitted, dict)
        and needed <= set(fitted) <= set(contents),
        "header",
    )
    later = {field.name for field in fields(learner_type) if ADDED_LATER in field.metadata}
    known = set(learner_type().get_params())
    demand(known - later <= set(parameters) <= known, "list of parameters")
    unpacker = Unpacker(arrays)
    learner = learner_type(**{key: unpacker.unpack(value) for key, value in parameters.items()})
    values = {
        attribute: unpacker.unpack(fitted.get(stored_as))
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
    learner.encoder_ = None
    if header.get("encoder") is not None:
        from corank.model_files.encoders import unpack_encoder

        learner.encoder_ = unpack_encoder(header["encoder"], arrays, learner.n_features_in_)
    learner.persons_encoder_ = None
    if header.get("persons_encoder") is not None:
        from corank.model_files.encoders import unpack_encoder

        n_columns, name = learner.n_columns_of_persons, "persons_encoder"
        demand(n_columns > 0, name)
        learner.persons_encoder_ = unpack_encoder(header[name], arrays, n_columns, name)
    return learner
