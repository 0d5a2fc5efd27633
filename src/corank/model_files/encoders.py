"""A table encoder beside a learner in a model file."""

from __future__ import annotations

from typing import Any

import numpy as np

from corank.core.storable import (
    COUNT,
    FLAG,
    TEXT,
    Sizes,
    entries,
    finite,
    floats,
    kinds_of_fields,
    several,
)
from corank.encode.columns import Column
from corank.encode.encoder import KINDS, LEARNED, OPTIONS, SCALING, TableEncoder
from corank.model_files.container import Packer
from corank.model_files.schema import demand
from corank.tables import LARGEST

# What `TableEncoder.to_state` gives: k columns of a table, t terms of a text.
_TERMS = several(TEXT) | COUNT | None
ENCODER = entries(
    max_categories=COUNT,
    scale=FLAG,
    columns=several(
        entries(
            **{name: kinds_of_fields(Column)[name] for name in LEARNED},
            words=_TERMS,
            characters=_TERMS,
        ),
        "k",
    ),
    **dict.fromkeys(OPTIONS, several(TEXT)),
)
ENCODER_ARRAYS = entries(**dict.fromkeys(SCALING, floats("k")))
TEXT_ARRAYS = entries(idf=floats("t"), components=finite("float32", "_", "t"))
VECTOR_ARRAYS = entries(centres=floats("_"))


def pack_encoder(encoder: Any, n_columns: int, packer: Packer, name: str = "encoder") -> Any:
    """What a file holds of an encoder, under a name, beside the arrays that the packer takes.

    n_columns : how many it should make
    """
    if not isinstance(encoder, TableEncoder):
        raise TypeError(
            f"encoder must be a corank.TableEncoder, got {type(encoder).__name__}; a model file"
            " holds no other preprocessing: save a whole pipeline with skops"
            " (https://skops.readthedocs.io)."
        )
    header, arrays = encoder.to_state()
    if len(encoder.attributes_) != n_columns:
        raise ValueError(
            f"{name} makes {len(encoder.attributes_)} columns, but the model was fitted on"
            f" {n_columns}."
        )
    packer.arrays.update({f"{name}.{part}": array for part, array in arrays.items()})
    return header


def unpack_encoder(
    header: Any, arrays: dict[str, Any], n_columns: int, name: str = "encoder"
) -> TableEncoder:
    """The encoder that a file holds under a name; `arrays` are all of the file."""
    prefix = f"{name}."
    encoder_arrays = {
        part.removeprefix(prefix): array
        for part, array in arrays.items()
        if part.startswith(prefix)
    }
    if isinstance(centre := encoder_arrays.get("centre"), np.ndarray):  # version 0.1 keeps no ends
        ends = {"low": np.full(centre.shape, -LARGEST), "high": np.full(centre.shape, LARGEST)}
        encoder_arrays = {**ends, **encoder_arrays}
    header = _as_today(header)
    demand(_is_sound_encoder(header, encoder_arrays), "table encoder")
    encoder = TableEncoder.from_state(header, encoder_arrays)
    demand(len(encoder.attributes_) == n_columns, "table encoder")
    return encoder


def _as_today(header: Any) -> Any:
    """The state of an encoder in the form of today.

    Version 0.1 calls categories text. Until numbers with units were read, a column had a
    `date_format` and no `clips`.
    """
    columns = header.get("columns") if isinstance(header, dict) else None
    if not isinstance(columns, list) or not all(isinstance(column, dict) for column in columns):
        return header
    is_of_version_0_1 = set(header) == {"max_categories", "scale", "columns"}
    header = {"identity": [], **header, "columns": []}
    if is_of_version_0_1:
        header |= {option: [] for option in OPTIONS}
    new = {
        "year": False,
        "season": False,
        "date_format": "",
        "vector": "",
        "words": None,
        "characters": None,
    }
    for column in columns:
        today = dict(column)
        if is_of_version_0_1:
            today = {**new, **today}
            today["kind"] = "category" if column.get("kind") == "text" else column.get("kind")
        if "date_format" in today:
            today = {"clips": False, "format": today.pop("date_format"), **today}
        header["columns"].append(today)
    return header


def _is_sound_encoder(header: Any, arrays: dict[str, Any]) -> bool:
    """Whether header and arrays are what `TableEncoder.to_state` gives, of sizes that agree."""
    sizes = Sizes()
    arrays = dict(arrays)
    scaling = {name: arrays.pop(name) for name in SCALING if name in arrays}
    if not ENCODER.fits(header, sizes) or not ENCODER_ARRAYS.fits(scaling, sizes):
        return False
    for position, column in enumerate(header["columns"]):
        text = _taken_out(arrays, f"text.{position}.")
        vector = _taken_out(arrays, f"vector.{position}.")
        is_text = column["kind"] == "text" and not column["dropped"]
        is_vector = column["kind"] == "vector" and not column["dropped"] and not column["vector"]
        if is_text != bool(text) or is_vector != bool(vector) or column["kind"] not in KINDS:
            return False
        terms = (column["words"], column["characters"])
        if not is_text and terms != (None, None):
            return False
        if is_text and not TEXT_ARRAYS.fits(text, Sizes()):
            return False
        if is_text and not _are_terms(terms, len(text["idf"])):
            return False
        if is_vector and not VECTOR_ARRAYS.fits(vector, Sizes()):
            return False
    return not arrays


def _taken_out(arrays: dict[str, Any], prefix: str) -> dict[str, Any]:
    """The arrays whose names begin so, without that beginning; they are taken out of the others."""
    names = [name for name in arrays if name.startswith(prefix)]
    return {name.removeprefix(prefix): arrays.pop(name) for name in names}


def _are_terms(terms: tuple[Any, Any], number: int) -> bool:
    """Whether words and character n-grams, by name or hashed, are that many in all, and none comes
    twice.
    """
    n_terms = 0
    for kind in terms:
        if kind is None or kind == 0 or (isinstance(kind, list) and len(set(kind)) < len(kind)):
            return False
        n_terms += kind if isinstance(kind, int) else len(kind)
    return n_terms == number > 0
