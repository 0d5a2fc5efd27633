"""What a model is made of ⇄ JSON and arrays: numbers, names, containers, CSR and a fixed list of our own types.

A JSON object stands for whatever JSON lacks, under one key that says what it is. Unpacking builds only what is on the
list, so that no file can make it run anything.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any, TypeAlias

import array_api_compat
import numpy as np
from scipy import sparse

from corank._arrays import Arrays, is_sparse, to_numpy
from corank.basis import Whitening
from corank.gram import Gram, Moments, Statistics
from corank.kernels import Kernel, registered_name
from corank.loss import Blend, Pointwise, WithinQueries
from corank.model_files.container import ModelFileError
from corank.problem import ComparedRows
from corank.rows import Rows
from corank.solvers.gp_posterior import GaussianPart
from corank.solvers.pair_data import PairData
from corank.solvers.transduction_fit import PullPath
from corank.solvers.tuning import Path
from corank.solvers.unscored_effect import UnscoredEffect
from corank.views import View, random_bases, random_split

Json: TypeAlias = Any

OWN_TYPES: dict[str, Any] = {
    kind.__name__: kind
    for kind in (
        *(Kernel, Path, Rows, Statistics, Gram, Moments, Whitening, Pointwise, Blend),
        *(View, random_split, random_bases, UnscoredEffect, PullPath, ComparedRows, GaussianPart),
    )
} | {"Queries": WithinQueries, "Compared": PairData}  # the names that 0.1 wrote
TYPE_NAMES = {kind: name for name, kind in OWN_TYPES.items()}
SPARSE_TYPES: dict[str, Any] = {"csr_array": sparse.csr_array, "csr_matrix": sparse.csr_matrix}


class Packer:
    """Turns values into JSON and gathers their arrays; an array met twice is kept once."""

    def __init__(self) -> None:
        self.arrays: Arrays = {}
        self._met: dict[int, tuple[Any, Json]] = {}  # holds the array too, so that its id stays taken

    def pack(self, value: Any, name: str) -> Json:
        """JSON that stands for `value`; `name` is what it is called in the file and in errors."""
        if isinstance(value, np.generic):
            value = value.item()
        if isinstance(value, float) and not math.isfinite(value):
            return {"number": repr(value)}
        if value is None or isinstance(value, bool | int | float | str):
            return value
        if isinstance(value, list | range):
            return [self.pack(each, f"{name}.{at}") for at, each in enumerate(value)]
        if isinstance(value, tuple):
            return {"tuple": self.pack(list(value), name)}
        if isinstance(value, slice):
            return {"slice": self.pack([value.start, value.stop, value.step], name)}
        if isinstance(value, Mapping):
            return {"dict": self._pack_members(dict(value), name)}
        if type(value) in TYPE_NAMES and is_dataclass(value):
            members = {field.name: getattr(value, field.name) for field in fields(value)}
            return {TYPE_NAMES[type(value)]: self._pack_members(members, name)}
        if is_sparse(value):
            return self._once(value, lambda: self._pack_sparse(value, name))
        if array_api_compat.is_array_api_obj(value) or hasattr(value, "__array__"):
            return self._once(value, lambda: self._pack_array(to_numpy(value), name))
        if callable(value):
            return self._pack_function(value, name)
        raise TypeError(f"{name} holds a {type(value).__name__}, which a model file cannot hold.")

    def _once(self, value: Any, pack: Any) -> Json:
        if id(value) not in self._met:
            self._met[id(value)] = (value, pack())
        return self._met[id(value)][1]

    def _pack_members(self, members: dict[Any, Any], name: str) -> Json:
        for key in members:
            if not isinstance(key, str):
                raise TypeError(f"{name} has the key {key!r}; only text can be one in a model file.")
        return {key: self.pack(value, f"{name}.{key}") for key, value in members.items()}

    def _pack_array(self, array: np.ndarray[Any, Any], name: str) -> Json:
        if array.dtype.kind in "OUT":
            if array.ndim != 1 or not all(isinstance(each, str) for each in array):
                raise TypeError(f"{name} holds objects that are not text, which a model file cannot hold.")
            return {"names": [str(each) for each in array]}
        if array.dtype.kind in "iu":
            array = array.astype(np.int64, copy=False) if array.dtype != np.int32 else array
        # rounding depends on the order in memory: keep it, so that predictions stay the same to the last bit
        by_columns = array.ndim == 2 and min(array.shape) > 1 and abs(array.strides[0]) < abs(array.strides[1])
        name = self._free(name)
        self.arrays[name] = array.T if by_columns else array
        return {"by_columns" if by_columns else "array": name}

    def _pack_sparse(self, matrix: Any, name: str) -> Json:
        kind = "csr_array" if isinstance(matrix, sparse.sparray) else "csr_matrix"
        matrix = matrix.tocsr()
        name = self._free(name, ".data")
        for part in ("data", "indices", "indptr"):
            self.arrays[f"{name}.{part}"] = getattr(matrix, part)
        return {kind: {"name": name, "shape": [int(size) for size in matrix.shape]}}

    def _free(self, name: str, ending: str = "") -> str:
        """The name, or one like it where a parameter has taken it."""
        while f"{name}{ending}" in self.arrays:
            name += "'"
        return name

    def _pack_function(self, function: Any, name: str) -> str:
        registered = registered_name(function)
        if registered is None:
            raise ValueError(
                f"{name} is a function without a name of its own, which a model file cannot hold: call "
                "corank.register_kernel('a name', function), then save again."
            )
        return registered


class Unpacker:
    """Turns JSON and arrays back into values; anything that `Packer` does not write is a ModelFileError."""

    def __init__(self, arrays: Arrays) -> None:
        self._arrays = arrays
        self._met: dict[tuple[str, str], Any] = {}  # what was one object is one again

    def unpack(self, value: Json) -> Any:
        """The value that the JSON stands for."""
        if value is None or isinstance(value, bool | int | float | str):
            return value
        if isinstance(value, list):
            return [self.unpack(each) for each in value]
        if not isinstance(value, dict) or len(value) != 1:
            raise ModelFileError("the model file has a header that makes no sense")
        [(tag, content)] = value.items()
        if tag == "number" and content in ("nan", "inf", "-inf"):
            return float(content)
        if tag == "tuple" and isinstance(content, list):
            return tuple(self.unpack(content))
        if tag == "slice" and isinstance(content, list) and len(content) == 3:
            return _sliced(content)
        if tag == "dict" and isinstance(content, dict):
            return {key: self.unpack(each) for key, each in content.items()}
        if tag == "names" and isinstance(content, list) and all(isinstance(each, str) for each in content):
            return np.array(content, dtype=object)
        if tag in ("array", "by_columns"):
            array = self._array(content)
            return array if tag == "array" else self._met.setdefault((tag, content), array.T)
        if tag in SPARSE_TYPES:
            return self._sparse(tag, content)
        if tag in OWN_TYPES:
            return self._own(OWN_TYPES[tag], content)
        raise ModelFileError(f"the model file holds something unknown: {tag[:40]!r}")

    def _array(self, name: Any) -> np.ndarray[Any, Any]:
        if not isinstance(name, str) or name not in self._arrays:
            raise ModelFileError("the model file lacks an array that its header speaks of")
        return self._arrays[name]

    def _sparse(self, kind: str, content: Any) -> Any:
        if not isinstance(content, dict) or set(content) != {"name", "shape"}:
            raise ModelFileError("the model file has a header that makes no sense")
        name, shape = content["name"], content["shape"]
        if (kind, str(name)) not in self._met:
            data, indices, indptr = (self._array(f"{name}.{part}") for part in ("data", "indices", "indptr"))
            if indices.dtype.kind != "i" or indptr.dtype.kind != "i":
                raise ModelFileError("the model file holds a broken sparse matrix")
            try:
                matrix = SPARSE_TYPES[kind]((data, indices, indptr), shape=shape)
                matrix.check_format(full_check=True)
            except (ValueError, TypeError, IndexError, OverflowError) as error:
                raise ModelFileError(f"the model file holds a broken sparse matrix: {error}") from error
            self._met[kind, str(name)] = matrix
        return self._met[kind, str(name)]

    def _own(self, kind: Any, content: Any) -> Any:
        parts = {field.name for field in fields(kind)}
        added = {field.name for field in fields(kind) if field.default is None}  # by later versions
        if not isinstance(content, dict) or not parts - added <= set(content) <= parts:
            raise ModelFileError(
                f"the model file has a {kind.__name__} with other parts than this corank knows, so it was written by "
                "another version of corank; fit the model again"
            )
        return kind(**{key: self.unpack(each) for key, each in content.items()})


def _sliced(ends: list[Json]) -> slice:
    if not all(end is None or type(end) is int for end in ends):
        raise ModelFileError("the model file has a header that makes no sense")
    return slice(*ends)
