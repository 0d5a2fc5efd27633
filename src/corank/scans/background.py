"""Reading ahead: the next chunks are read while the last one is worked on."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Generator, Iterator
from typing import TypeVar

Item = TypeVar("Item")


def read_ahead(make: Callable[[], Iterator[Item]], depth: int = 1) -> Generator[Item, None, None]:
    """The items of an iterator that runs in a thread of its own, at most `depth` of them waiting; order stays."""
    waiting: queue.Queue[tuple[Item | None, BaseException | None, bool]] = queue.Queue(depth)
    stopped = threading.Event()

    def put(item: Item | None, error: BaseException | None = None, *, last: bool = False) -> None:
        while not stopped.is_set():
            try:
                waiting.put((item, error, last), timeout=0.1)
            except queue.Full:
                continue
            return

    def work() -> None:
        try:
            for item in make():
                put(item)
                if stopped.is_set():
                    return
            put(None, last=True)
        except BaseException as error:  # noqa: BLE001 - it is raised where the items are wanted
            put(None, error)

    thread = threading.Thread(target=work, name="corank-reader", daemon=True)
    thread.start()
    try:
        while True:
            item, error, last = waiting.get()
            if error is not None:
                raise error
            if last:
                return
            yield item  # type: ignore[misc]
    finally:
        stopped.set()
        thread.join()
