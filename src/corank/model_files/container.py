"""One safe file per model: a safetensors file of arrays, with a JSON header and a checksum in its
metadata.

What the header says is the business of the caller; nothing here knows a learner, and reading never
runs code.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as to_safetensors

from corank._version import __version__
from corank.core.arrays import Arrays
from corank.core.storable import ModelFileError

FORMAT = "corank"
FORMAT_VERSION = 2  # raise it when a file of today could not be read by the corank of yesterday
DTYPES = {"F64": "float64", "F32": "float32", "I64": "int64", "I32": "int32", "BOOL": "bool"}


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
        about = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ModelFileError(f"{path} is damaged: its header is not JSON") from error
    if (
        not isinstance(about, dict)
        or about.get("format") != FORMAT
        or type(about.get("version")) is not int
    ):
        _damaged(path, "its header does not say which format it has")
    if about["version"] > FORMAT_VERSION:
        raise ModelFileError(
            f"{path} was written by a newer corank (file format {about['version']}, this one reads"
            f" up to {FORMAT_VERSION}): upgrade corank to read it"
        )
    if (
        about["version"] < 1
        or not isinstance(about.get("header"), dict)
        or not isinstance(about.get("corank"), str)
    ):
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
