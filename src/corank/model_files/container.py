"""One safe file per model: a safetensors file of arrays, with a JSON header and a checksum in its
metadata; and the values of a model ⇄ JSON and arrays: numbers, text, containers, CSR matrices and
storable dataclasses.

What the header says is the business of the caller; nothing here knows a learner, and reading never
runs code. A JSON object stands for whatever JSON lacks, under one key that says what it is.
Unpacking builds only storable types, so that no file can make it run anything.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import wraps
from pathlib import Path
from typing import Any, NoReturn, TypeAlias

import array_api_compat
import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as to_safetensors
from scipy import sparse

from corank._version import __version__
from corank.core.arrays import Arrays, NumpyArray, is_sparse, to_numpy
from corank.core.storable import ADDED_LATER, STORABLE, ModelFileError, function_name, type_name

FORMAT = "corank"
FORMAT_VERSION = 2  # raise it when a file of today could not be read by the corank of yesterday
DTYPES = {"F64": "float64", "F32": "float32", "I64": "int64", "I32": "int32", "BOOL": "bool"}
Json: TypeAlias = Any

NO_SENSE = "the model file has a header that makes no sense"
SPARSE_TYPES: dict[str, Any] = {"csr_array": sparse.csr_array, "csr_matrix": sparse.csr_matrix}


def is_inner(error: BaseException) -> bool:
    """Whether an error is none of corank's own sentences: values that do not go together, found
    while computing.
    """
    if not isinstance(error, Exception) or isinstance(error, OSError | ModelFileError):
        return False
    if not isinstance(error, ValueError | TypeError) or isinstance(error, np.linalg.LinAlgError):
        return True
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is None or not str(trace.tb_frame.f_globals.get("__name__")).startswith("corank.")


def all_or_nothing(method: Callable[..., Any]) -> Callable[..., Any]:
    """A method that leaves a model as it was where it is refused or interrupted."""

    @wraps(method)
    def changed(self: Any, *arguments: Any, **options: Any) -> Any:
        before = dict(vars(self))
        try:
            return method(self, *arguments, **options)
        except BaseException as error:
            vars(self).clear()
            vars(self).update(before)
            if getattr(self, "_is_loaded", False) and is_inner(error):
                raise ModelFileError(
                    f"{method.__name__}: what the file of this model holds does not go together"
                    f" ({error!r}); fit it again, and report that if corank wrote the file."
                ) from error
            if isinstance(error, np.linalg.LinAlgError):
                raise ValueError(  # noqa: TRY004
                    f"{method.__name__}: these numbers cannot be solved for ({error}); look for"
                    " columns or scores of extreme size."
                ) from error
            raise

    return changed


def write_model(
    path: str | os.PathLike[str],
    header: dict[str, Any],
    arrays: Arrays,
    overwrite: bool = False,
    *,
    private: bool = False,
) -> None:
    """Write a model file, whole or not at all.

    Parameters
    ----------
    path : path
    header : dict
        Can be written as JSON, without NaN and infinity.
    arrays : dict of ndarray
        float64, float32, int64, int32 or bool, of any strides.
    overwrite : bool
        Whether a file that is already there may be replaced; else that is a FileExistsError. Its
        mode is kept.
    private : bool
        Whether a new file can be read by its owner alone.
    """
    # safetensors takes the buffer as it lies: strided arrays would come back scrambled
    arrays = {
        name: np.require(array, array.dtype.newbyteorder("<"), ["C", "A"])
        for name, array in arrays.items()
    }
    for name, array in arrays.items():
        if array.dtype.name not in DTYPES.values():
            raise TypeError(
                f"array {name!r} has values of type {array.dtype}, which a model file cannot hold."
            )
    about = {"format": FORMAT, "version": FORMAT_VERSION, "corank": __version__, "header": header}
    text = json.dumps(about, allow_nan=False)
    content = to_safetensors(arrays, metadata={FORMAT: text, "sha256": checksum(text, arrays)})
    from corank.tables import replacing  # they read Arrow, which takes long to import

    path = Path(path)
    try:
        with replacing(path, overwrite=overwrite, private=private) as file:
            file.write(content)
    except PermissionError as error:
        raise PermissionError(
            f"{path} cannot be written: no permission in the folder {path.parent}"
        ) from error


def read_model(path: str | os.PathLike[str]) -> tuple[dict[str, Any], Arrays]:
    """Read a model file that `write_model` wrote; anything else is a ModelFileError.

    Where there is no file that is a FileNotFoundError, where there is a folder an
    IsADirectoryError.

    Parameters
    ----------
    path : path

    Returns
    -------
    header : dict
        As it was written, and under "corank" the version of corank that wrote it.
    arrays : dict of ndarray
    """
    path = Path(path)
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder, not a model file")
    if not path.exists():
        raise FileNotFoundError(f"there is no file {path}")
    if not path.is_file():
        raise ModelFileError(f"{path} is not a file")
    try:
        with safe_open(path, framework="np") as file:
            metadata = file.metadata() or {}
            text = metadata.get(FORMAT)
            if text is None:
                raise ModelFileError(f"{path} is a safetensors file, but not a corank model")
            about = _parsed(path, text)
            names = file.keys()
            for name in names:
                if file.get_slice(name).get_dtype() not in DTYPES:
                    _damaged(path, f"array {name!r} is of an unknown type")
            arrays: Arrays = {name: file.get_tensor(name) for name in names}
    except SafetensorError as error:
        raise ModelFileError(f"{path} is not a model file, or it is damaged or cut off") from error
    except OSError as error:
        raise ModelFileError(f"{path} cannot be read: {error.strerror or error}") from error
    if checksum(text, arrays) != metadata.get("sha256"):
        _damaged(
            path, "its content does not match its checksum, so it was altered after it was written"
        )
    return {**about["header"], "corank": about["corank"]}, arrays


def _parsed(path: Path, text: str) -> dict[str, Any]:
    """The JSON part, its frame checked."""
    try:
        about: dict[str, Any] = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ModelFileError(f"{path} is damaged: its header is not JSON") from error
    is_ours = isinstance(about, dict) and about.get("format") == FORMAT
    if not is_ours or type(about.get("version")) is not int:
        _damaged(path, "its header does not say which format it has")
    if about["version"] > FORMAT_VERSION:
        raise ModelFileError(
            f"{path} was written by a newer corank (file format {about['version']}, this one reads"
            f" up to {FORMAT_VERSION}): upgrade corank to read it"
        )
    is_told = isinstance(about.get("header"), dict) and isinstance(about.get("corank"), str)
    if about["version"] < 1 or not is_told:
        _damaged(path, "its header is incomplete")
    return about


def checksum(text: str, arrays: Arrays) -> str:
    """SHA-256 of the header and of every array with its name, type and shape."""
    digest = hashlib.sha256(text.encode())
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(json.dumps([name, array.dtype.name, array.shape]).encode())
        digest.update(np.ascontiguousarray(array).data.cast("B") if array.size else b"")
    return digest.hexdigest()


def _damaged(path: Path, how: str) -> NoReturn:
    raise ModelFileError(f"{path} is damaged: {how}")


# ---- values ⇄ JSON and arrays


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
        if isinstance(value, Mapping) and any(isinstance(key, tuple) for key in value):
            return {"pairs": self.pack([list(item) for item in value.items()], name)}
        if isinstance(value, Mapping):
            return {"dict": self._pack_members(dict(value), name)}
        if (stored_as := type_name(value)) is not None:
            members = {field.name: getattr(value, field.name) for field in fields(value)}
            return {stored_as: self._pack_members(members, name)}
        is_array = array_api_compat.is_array_api_obj(value) or hasattr(value, "__array__")
        if is_sparse(value) or is_array:
            if id(value) not in self._packed:
                pack = self._pack_sparse if is_sparse(value) else self._pack_array
                self._packed[id(value)] = (value, pack(value, name))
            return self._packed[id(value)][1]
        if callable(value):
            registered = function_name(value)
            if registered is None:
                raise ValueError(
                    f"{name} is a function without a name of its own, which a model file cannot"
                    " hold: call corank.register_kernel('a name', function), then save again."
                )
            return registered
        raise TypeError(
            f"{name} holds a {type(value).__name__}, which a model file cannot hold; it can hold text,"
            " numbers, and lists, tuples and dicts of them."
        )

    def _pack_members(self, members: dict[Any, Any], name: str) -> Json:
        for key in members:
            if not isinstance(key, str):
                raise TypeError(
                    f"{name} has the key {key!r}; only text can be one in a model file."
                )
        return {key: self.pack(value, f"{name}.{key}") for key, value in members.items()}

    def _pack_array(self, values: Any, name: str) -> Json:
        array = to_numpy(values)
        if array.dtype == object and array.ndim == 2:
            rows = enumerate(array.tolist())
            return {"objects": [self.pack(row, f"{name}.{number}") for number, row in rows]}
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
        is_matrix = array.ndim == 2 and min(array.shape) > 1
        by_columns = is_matrix and abs(array.strides[0]) < abs(array.strides[1])
        name = self._free_name(name)
        self.arrays[name] = array.T if by_columns else array
        return {"by_columns" if by_columns else "array": name}

    def _pack_sparse(self, matrix: Any, name: str) -> Json:
        kind = "csr_array" if isinstance(matrix, sparse.sparray) else "csr_matrix"
        matrix = matrix.tocsr()
        name = self._free_name(name, ".data")
        for member in ("data", "indices", "indptr"):
            self.arrays[f"{name}.{member}"] = getattr(matrix, member)
        return {kind: {"name": name, "shape": list(map(int, matrix.shape))}}

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
        if tag == "pairs" and is_list:
            return dict(self.unpack(content))
        if tag == "names" and is_list and all(isinstance(item, str) for item in content):
            return np.array(content, dtype=object)
        if tag == "objects" and is_list and len({len(row) for row in content}) == 1:
            cells = np.empty((len(content), len(content[0])), dtype=object)
            for row, values in enumerate(content):
                for column, cell in enumerate(values):
                    cells[row, column] = self.unpack(cell)
            return cells
        if tag == "array":
            return self._array(content)
        if tag == "by_columns":
            return self._unpacked.setdefault((tag, content), self._array(content).T)
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
