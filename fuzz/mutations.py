"""Random changes of bytes, of JSON and of arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

Rng = np.random.Generator
ODD_BYTES = [
    b"\0",
    b"\xff",
    b"\n",
    b'"',
    b",",
    b";",
    b"\t",
    b"\r\n",
    b"{",
    b"}",
    b"[",
    b"nan",
    b"1e999",
    b"-",
    b"\x1b[31m",
]
ODD_VALUES: list[Any] = [
    None, True, False, 0, 1, -1, 2, 3, 7, 2**31, 2**63, -(2**63) - 1, 10**30, 0.5, -0.5, 1e-320, 1e60, 1e155, 1e308, "", "a",
    "rbf", "linear", "precomputed", "tune", "\udc80", "\x00\x1b[31m", "x" * 3000, "__import__('os')", [], {}, [1, 2],
    [None], [[1]], ["a", "a"], {"a": 1}, {"": None}, {"type": "View"}, [{"kernel": "rbf"}],
]  # fmt: skip
ODD_NUMBERS = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    1e-320,
    1e60,
    1e155,
    -1e308,
    np.nan,
    np.inf,
    -np.inf,
    2.0**63,
    -1e-300,
    0.1,
]


def changed_bytes(rng: Rng, content: bytes) -> bytes:
    """Bytes with one to four changes: flips, cuts, repetitions, insertions."""
    data = bytearray(content)
    for _ in range(int(rng.integers(1, 5))):
        place = int(rng.integers(len(data) + 1))
        length = int(rng.choice([1, 2, 8, 64, 1000]))
        match int(rng.integers(6)):
            case 0 if data:
                data[place % len(data)] ^= 1 << int(rng.integers(8))
            case 1:
                del data[place : place + length]
            case 2:
                data[place:place] = data[place : place + length]
            case 3:
                data[place:place] = ODD_BYTES[int(rng.integers(len(ODD_BYTES)))]
            case 4:
                data[place : place + length] = rng.bytes(length)
            case 5 if rng.random() < 0.3:
                del data[place:]
    return bytes(data)


def changed_json(rng: Rng, value: Any) -> Any:
    """JSON with one entry changed, removed, doubled or added, anywhere inside."""
    places = list(_places(value))
    if not places:
        return _odd(rng)
    holder, key = places[int(rng.integers(len(places)))]
    match int(rng.integers(6)):
        case 0 | 1:
            holder[key] = _odd(rng)
        case 2:
            del holder[key]
        case 3 if isinstance(holder[key], int | float):
            holder[key] = holder[key] * int(rng.choice([-1, 0, 2, 10**6])) + int(
                rng.choice([-1, 0, 1])
            )
        case 4:
            other, other_key = places[int(rng.integers(len(places)))]
            holder[key] = (
                _copied(other[other_key]) if other_key in other or isinstance(other, list) else None
            )
        case _:
            if isinstance(holder, list):
                holder.insert(key, _odd(rng))
            else:
                holder[str(rng.integers(10))] = _odd(rng)
    return value


def _places(value: Any) -> Any:
    entries = (
        enumerate(value)
        if isinstance(value, list)
        else value.items()
        if isinstance(value, dict)
        else ()
    )
    for key, inner in list(entries):
        yield value, key
        yield from _places(inner)


def _copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copied(inner) for key, inner in value.items()}
    return [_copied(inner) for inner in value] if isinstance(value, list) else value


def _odd(rng: Rng) -> Any:
    return _copied(ODD_VALUES[int(rng.integers(len(ODD_VALUES)))])


def changed_array(rng: Rng, array: Any) -> Any:
    """An array with other numbers, another shape, type or size."""
    array = array.copy()
    match int(rng.integers(7)):
        case 0 | 1 if array.size:
            flat = array.reshape(-1)
            with np.errstate(all="ignore"):
                flat[int(rng.integers(flat.size))] = _number(rng, array.dtype)
        case 2:
            array = array[: int(rng.integers(len(array) + 1))] if array.ndim else array
        case 3:
            array = array.reshape(-1) if array.ndim > 1 else array.reshape(1, -1)
        case 4:
            with np.errstate(all="ignore"):
                array = array.astype(
                    str(rng.choice(["float64", "float32", "int64", "int32", "bool"]))
                )
        case 5 if array.ndim:
            array = np.concatenate([array, array[: int(rng.integers(1, 4))]])
        case _:
            with np.errstate(all="ignore"):
                array = np.full_like(array, _number(rng, array.dtype))
    return array


def _number(rng: Rng, dtype: Any) -> Any:
    number = ODD_NUMBERS[int(rng.integers(len(ODD_NUMBERS)))]
    if dtype.kind == "f":
        return number
    return (
        int(rng.choice([0, 1, -1, 5, 10**6, 2**31 - 1, -(2**31)]))
        if dtype.kind == "i"
        else bool(rng.random() < 0.5)
    )
