"""Values of a model ⇄ JSON and arrays: numbers, text, containers, CSR matrices and storable
dataclasses.

A JSON object stands for whatever JSON lacks, under one key that says what it is. Unpacking builds
only storable types, so that no file can make it run anything.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, TypeAlias

import array_api_compat
import numpy as np
from scipy import sparse

from corank.core.arrays import Arrays, NumpyArray, is_sparse, to_numpy
from corank.core.storable import ADDED_LATER, STORABLE, ModelFileError, function_name, type_name

Json: TypeAlias = Any

NO_SENSE = "the model file has a header that makes no sense"
SPARSE_TYPES: dict[str, Any] = {"csr_array": sparse.csr_array, "csr_matrix": sparse.csr_matrix}


class Packer:
    """Turns values into JSON and gathers their arrays; an array met twice is kept once."""

    def __init__(self) -> None:
        self.arrays: Arrays = {}
        # holds the array too, so that its id stays taken
        self._packed: dict[int, tuple[Any, Json]] = {}

    def pack(self, value: Any, name: str) -> Json:
        """JSON that stands for `value`; `name` is what it is called in the file and in errors."""
        if isinstance(value, np.generic):
            value = value.item()
        if isinstance(value, float) and not math.isfinite(value):
            return {"number": repr(value)}
        if value is None or isinstance(value, bool | int | float | str):
            return value
        if isinstance(value, list | range):
            return [self.pack(item, f"{name}.{position}") for position, item in enumerate(value)]
        if isinstance(value, tuple):
            return {"tuple": self.pack(list(value), name)}
        if isinstance(value, slice):
            return {"slice": self.pack([value.start, value.stop, value.step], name)}
        if isinstance(value, Mapping):
            return {"dict": self._pack_members(dict(value), name)}
        if (stored_as := type_name(value)) is not None:
            members = {field.name: getattr(value, field.name) for field in fields(value)}
            return {stored_as: self._pack_members(members, name)}
        is_array = array_api_compat.is_array_api_obj(value) or hasattr(value, "__array__")
        if is_sparse(value) or is_array:
            return self._pack_once(value, name)
        if callable(value):
            registered = function_name(value)
            if registered is None:
                raise ValueError(
                    f"{name} is a function without a name of its own, which a model file cannot"
                    " hold: call corank.register_kernel('a name', function), then save again."
                )
            return registered
        raise TypeError(f"{name} holds a {type(value).__name__}, which a model file cannot hold.")

    def _pack_once(self, value: Any, name: str) -> Json:
        """An array or a CSR matrix."""
        if id(value) not in self._packed:
            pack = self._pack_sparse if is_sparse(value) else self._pack_array
            self._packed[id(value)] = (value, pack(value, name))
        _, packed = self._packed[id(value)]
        return packed

    def _pack_members(self, members: dict[Any, Any], name: str) -> Json:
        for key in members:
            if not isinstance(key, str):
                raise TypeError(
                    f"{name} has the key {key!r}; only text can be one in a model file."
                )
        return {key: self.pack(value, f"{name}.{key}") for key, value in members.items()}

    def _pack_array(self, values: Any, name: str) -> Json:
        array = to_numpy(values)
        if array.dtype.kind in "OUT":
            if array.ndim != 1 or not all(isinstance(item, str) for item in array):
                raise TypeError(
                    f"{name} holds objects that are not text, which a model file cannot hold."
                )
            return {"names": [str(item) for item in array]}
        if array.dtype.kind in "iu" and array.dtype != np.int32:
            array = array.astype(np.int64, copy=False)
        # rounding depends on the order in memory: keep it, so that predictions stay the same to the
        # last bit
        by_columns = False
        if array.ndim == 2 and min(array.shape) > 1:
            down, across = np.abs(array.strides)
            by_columns = bool(down < across)
        name = self._free_name(name)
        self.arrays[name] = array.T if by_columns else array
        return {"by_columns" if by_columns else "array": name}

    def _pack_sparse(self, matrix: Any, name: str) -> Json:
        kind = "csr_array" if isinstance(matrix, sparse.sparray) else "csr_matrix"
        matrix = matrix.tocsr()
        name = self._free_name(name, ".data")
        for member in ("data", "indices", "indptr"):
            self.arrays[f"{name}.{member}"] = getattr(matrix, member)
        shape = [int(size) for size in matrix.shape]
        return {kind: {"name": name, "shape": shape}}

    def _free_name(self, name: str, ending: str = "") -> str:
        """The name, or one like it where a parameter has taken it."""
        while f"{name}{ending}" in self.arrays:
            name += "'"
        return name


class Unpacker:
    """Turns JSON and arrays back into values; anything that `Packer` does not write is a
    ModelFileError.
    """

    def __init__(self, arrays: Arrays) -> None:
        self._arrays = arrays
        self._unpacked: dict[tuple[str, str], Any] = {}  # what was one object is one again

    def unpack(self, value: Json) -> Any:
        """The value that the JSON stands for."""
        if value is None or isinstance(value, bool | int | float | str):
            return value
        if isinstance(value, list):
            return [self.unpack(item) for item in value]
        if not isinstance(value, dict) or len(value) != 1:
            raise ModelFileError(NO_SENSE)
        [(tag, content)] = value.items()
        if tag == "number" and content in ("nan", "inf", "-inf"):
            return float(content)
        is_list = isinstance(content, list)
        if tag == "tuple" and is_list:
            return tuple(self.unpack(content))
        if tag == "slice" and is_list and len(content) == 3:
            if not all(end is None or type(end) is int for end in content):
                raise ModelFileError(NO_SENSE)
            return slice(*content)
        if tag == "dict" and isinstance(content, dict):
            return {key: self.unpack(item) for key, item in content.items()}
        if tag == "names" and is_list and all(isinstance(item, str) for item in content):
            return np.array(content, dtype=object)
        if tag == "array":
            return self._array(content)
        if tag == "by_columns":
            array = self._array(content)
            return self._unpacked.setdefault((tag, content), array.T)
        if tag in SPARSE_TYPES:
            return self._sparse(tag, content)
        if tag in STORABLE:
            return self._object(STORABLE[tag], content)
        raise ModelFileError(f"the model file holds something unknown: {tag[:40]!r}")

    def _array(self, name: Any) -> NumpyArray:
        if not isinstance(name, str) or name not in self._arrays:
            raise ModelFileError("the model file lacks an array that its header speaks of")
        return self._arrays[name]

    def _sparse(self, kind: str, content: Any) -> Any:
        if not isinstance(content, dict) or set(content) != {"name", "shape"}:
            raise ModelFileError(NO_SENSE)
        name = str(content["name"])
        if (kind, name) in self._unpacked:
            return self._unpacked[kind, name]
        members = [self._array(f"{name}.{member}") for member in ("data", "indices", "indptr")]
        _, indices, indptr = members
        if indices.dtype.kind != "i" or indptr.dtype.kind != "i":
            raise ModelFileError("the model file holds a broken sparse matrix")
        try:
            matrix = SPARSE_TYPES[kind](tuple(members), shape=content["shape"])
            matrix.check_format(full_check=True)
            # SciPy looks at differences, and only where there are entries
            if np.any(indptr[1:] < indptr[:-1]):
                raise ValueError("its rows overlap")
        except (ValueError, TypeError, IndexError, OverflowError) as error:
            raise ModelFileError(f"the model file holds a broken sparse matrix: {error}") from error
        self._unpacked[kind, name] = matrix
        return matrix

    def _object(self, storable_type: Any, content: Any) -> Any:
        names = {field.name for field in fields(storable_type)}
        added_later = {
            field.name
            for field in fields(storable_type)
            if field.default is None or field.metadata.get(ADDED_LATER)
        }
        if not isinstance(content, dict) or not names - added_later <= set(content) <= names:
            raise ModelFileError(
                f"the model file has a {storable_type.__name__} with other parts than this corank"
                " knows, so it was written by another version of corank; fit the model again"
            )
        return storable_type(**{key: self.unpack(item) for key, item in content.items()})
