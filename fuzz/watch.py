"""What counts as a finding: an error that is no sentence, a hang, much memory, a program that is
started.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import joblib

import corank

MAX_SECONDS = 10
MAX_BYTES = 10**9  # above what the process had before
PACKAGE = str(Path(corank.__file__).parent)
FORBIDDEN = (
    "os.system",
    "os.exec",
    "os.posix_spawn",
    "os.spawn",
    "subprocess.Popen",
    "pickle.find_class",
    "socket.connect",
)
_started: list[str] = []


class FuzzHang(BaseException):
    """A case that takes too long. No `except Exception` on its way catches it."""


def _note_started(event: str, arguments: Any) -> None:
    if event in FORBIDDEN and "uname" not in repr(arguments):  # asked for by the module platform
        _started.append(f"{event} {arguments!r}"[:200])


joblib.cpu_count(only_physical_cores=True)  # runs lscpu once per process, which is no finding
sys.addaudithook(_note_started)


@contextmanager
def deadline(seconds: int = MAX_SECONDS) -> Iterator[None]:
    """Raise `FuzzHang` in the block when it has computed for that long, or waited for ten times
    that.
    """

    def stop(number: int, frame: Any) -> None:
        raise FuzzHang("".join(traceback.format_stack(frame)[-3:]))

    before = {number: signal.signal(number, stop) for number in (signal.SIGALRM, signal.SIGPROF)}
    signal.alarm(10 * seconds)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.setitimer(signal.ITIMER_PROF, 0)
        for number, handler in before.items():
            signal.signal(number, handler)


def finding_of(
    act: Callable[[], Any], allowed: tuple[type[Exception], ...] = (ValueError, TypeError)
) -> str | None:
    """What is wrong with how an act ended, None where nothing is.

    An act may end with an error of the allowed types that corank itself raised, which is a
    sentence; and it may return a finding of its own.
    """
    _started.clear()
    memory = _peak_bytes()
    result: Any = None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            with deadline():
                result = act()
        except FuzzHang as error:
            return f"hangs: {error}"
        except allowed as error:
            if not _raised_by_corank(error):
                result = _described(error)
        except Exception as error:  # noqa: BLE001
            result = _described(error)
    if _started:
        return f"started something: {_started[0]}"
    if _peak_bytes() - memory > MAX_BYTES:
        return f"took {(_peak_bytes() - memory) / 1e9:.1f} GB"
    return result if isinstance(result, str) else None


def _raised_by_corank(error: BaseException) -> bool:
    frames = traceback.extract_tb(error.__traceback__)
    return bool(frames) and frames[-1].filename.startswith(PACKAGE)


def _described(error: BaseException) -> str:
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename.startswith(PACKAGE)
    ]
    where = (
        f"{os.path.relpath(frames[-1].filename, PACKAGE)}:{frames[-1].lineno}"
        if frames
        else "outside of corank"
    )
    return f"{type(error).__name__} at {where}: {' '.join(str(error).split())[:200]}"


def _peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
