"""Messages of sites, states and checkpoints, mutated at random: one sentence or finite numbers,
nothing else.

`run(seed, count)` tries so many cases and returns what went wrong, one sentence each; `case(seed,
number)` repeats one.
"""

from __future__ import annotations

import json
import logging
import shutil
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from corank import CoRankRLS, CoRLS, RankRLS, TableEncoder, scan
from corank.cli.columns import features_of
from corank.model_files.container import read_model, write_model
from corank.tables import write_table
from corank_federated import (
    Coordinator,
    Fault,
    InProcess,
    Limits,
    Message,
    MessageError,
    Plan,
    RunStopped,
    SharedItems,
    SharedItemsError,
    Site,
    StateError,
)
from corank_federated.channel import answered
from corank_federated.messages import KINDS, NAME, PREFIX, decoded
from corank_federated.predicting import ModelServer, joint_prediction, question
from corank_federated.state import read_state, write_state

MAX_SECONDS = 10.0
MAX_ITEMS = 1000
NAMES = ("a", "b", "c")
ODD: list[Any] = [
    None, True, False, 0, 1, 2, -1, 7, 2**31, 2**63, -(2**63), 10**30, 10**400, 0.0, -0.5, 1e308, -1e308, 1e-320,
    "", "a", "b", "é", "\udc80", "\x00\x1b[31m", "x" * 5000, "run", "other", [], {}, [1, 2, 3], ["a", "a"], ["a", "b"],
    [0.1, 0.2, 0.3], [1e300, 1.0, 1.0], [None], [[1]], {"a": 1}, {"id": ["x"]}, "regression", "ranking by size",
]  # fmt: skip
NUMBERS = [0.0, -0.0, 1.0, -1.0, 1e6, -1e9, 1e149, 1e155, 1e308, 5e-324, np.nan, np.inf, -np.inf]


class FuzzFinding(Exception):
    """What should not have happened."""


# ---- mutations


def pick(rng: np.random.Generator, choices: Any) -> Any:
    """One of several."""
    return choices[int(rng.integers(len(choices)))]


def changed_bytes(rng: np.random.Generator, content: bytes) -> bytes:
    """A few bytes changed, taken out, doubled or cut off."""
    new = bytearray(content)
    for _ in range(int(rng.integers(1, 5))):
        at, length = int(rng.integers(len(new) + 1)), int(rng.integers(1, 9))
        action = int(rng.integers(6))
        if action == 0 and new:
            new[at % len(new)] ^= 1 << int(rng.integers(8))
        elif action == 1:
            new[at : at + length] = rng.bytes(length)
        elif action == 2:
            del new[at : at + length]
        elif action == 3:
            new[at:at] = new[at : at + 64]
        elif action == 4:
            del new[at:]
        else:
            new[at:at] = b'{"[]:,\x00'
    return bytes(new)


def changed_value(rng: np.random.Generator, value: Any) -> Any:
    """Another value in place of one, or inside one."""
    if isinstance(value, dict) and value and rng.random() < 0.7:
        key = pick(rng, list(value))
        return {**value, key: changed_value(rng, value[key])}
    if isinstance(value, list) and value and rng.random() < 0.7:
        at = int(rng.integers(len(value)))
        return [*value[:at], changed_value(rng, value[at]), *value[at + 1 :]]
    if isinstance(value, int | float) and not isinstance(value, bool) and rng.random() < 0.4:
        return value + pick(rng, [-1, 1, 0.5, 1e9])
    return pick(rng, ODD)


def changed_numbers(rng: np.random.Generator, numbers: Any) -> Any:
    """Numbers of another length, or with odd ones among them."""
    if numbers is None or rng.random() < 0.1:
        return None if rng.random() < 0.5 else rng.normal(size=int(rng.integers(9)))
    new = np.array(numbers, dtype=np.float64)
    if rng.random() < 0.3:
        return (
            new[: int(rng.integers(len(new) + 1))]
            if rng.random() < 0.5
            else np.concatenate([new, new])
        )
    if len(new):
        new[rng.integers(len(new), size=int(rng.integers(1, 4)))] = pick(rng, NUMBERS)
    return new * pick(rng, [1.0, 1e6, 1e200]) if rng.random() < 0.3 else new


def changed_message(rng: np.random.Generator, message: Message) -> Message:
    """Other fields or other numbers of the right or the wrong kind."""
    fields = dict(message.fields)
    if fields and rng.random() < 0.7:
        name = pick(rng, list(fields))
        fields[name] = changed_value(rng, fields[name])
    if rng.random() < 0.1:
        fields[pick(rng, ["extra", "run", "kind", "length"])] = pick(rng, ODD)
    kind = pick(rng, list(KINDS)) if rng.random() < 0.1 else message.kind
    return Message(
        kind,
        fields,
        changed_numbers(rng, message.numbers) if rng.random() < 0.5 else message.numbers,
    )


def encoded(message: Message) -> bytes:
    """Bytes of a message, also of one that corank would not write."""
    length = {} if message.numbers is None else {"length": len(message.numbers)}
    header = json.dumps({"kind": message.kind, **length, **message.fields}).encode()
    body = b"" if message.numbers is None else np.asarray(message.numbers, dtype="<f8").tobytes()
    return PREFIX.pack(b"CRK1", len(header)) + header + body


def mutant(rng: np.random.Generator, message: Message) -> Message | None:
    """A message changed on its way, if it still is one."""
    content = encoded(changed_message(rng, message))
    if rng.random() < 0.4:
        content = changed_bytes(rng, content)
    try:
        return decoded(content, max_values=MAX_ITEMS)
    except MessageError:
        return None


# ---- what is attacked


@cache
def site_data(name: str) -> tuple[Any, Any, Any, Any]:
    """Rows, scores and queries of a site, and the shared items."""
    rng = np.random.default_rng(NAMES.index(name))
    X = rng.normal(size=(8, 2))
    return (
        X,
        np.sin(X[:, 0]) + X[:, 1],
        np.arange(8) % 2,
        np.random.default_rng(9).normal(size=(6, 2)),
    )


@cache
def fitted_site(name: str, ranking: bool) -> Site:
    """A small site, to be copied."""
    return make_site(name, ranking=ranking)


def make_site(name: str, *, ranking: bool = False, state: Path | None = None) -> Site:
    """A small site."""
    X, y, queries, items = site_data(name)
    shared = SharedItems(items, ids=list(range(6)), queries=[0, 0, 0, 1, 1, 1] if ranking else None)
    learner = CoRankRLS(alpha=1.0) if ranking else CoRLS(alpha=1.0)
    limits = Limits(rounds=50)
    return Site(
        name, learner, X, y, shared, qid=queries if ranking else None, limits=limits, state=state
    )


def check_finite(what: str, values: Any) -> None:
    """Refuse NaN and infinity."""
    if not np.isfinite(np.asarray(values, dtype=np.float64)).all():
        raise FuzzFinding(f"{what} are not finite")


def coordinator_messages(site: Site) -> list[Message]:
    """What a coordinator says in a run of a few rounds."""
    about = {
        "comparison": site.comparison,
        "items": len(site.shared),
        "digest": site.shared.fingerprint.digest,
    }
    rng = np.random.default_rng(0)
    terms = Message(
        "terms", {"run": "run", "sites": list(NAMES), "agreement": 0.4, "report": True, **about}
    )
    rounds = [
        Message(
            "round", {"run": "run", "round": k, "sites": 3}, None if k == 1 else rng.normal(size=6)
        )
        for k in range(1, 4)
    ]
    finish = Message("finish", {"run": "run", "round": 3, "converged": True})
    return [
        Message("compare", {"upto": 3}),
        terms,
        *rounds,
        finish,
        Message("stop", {"reason": "r", "row": None}),
    ]


def to_site(rng: np.random.Generator, folder: Path) -> None:
    """Messages of a coordinator, to a site that answers for itself."""
    site = deepcopy(fitted_site("a", bool(rng.integers(2))))
    for message in coordinator_messages(site):
        asked = mutant(rng, message) if rng.random() < 0.5 else message
        if asked is None:
            continue
        reply = decoded(answered(site, asked).encoded())
        if reply.numbers is not None:
            check_finite("answers of a site", reply.numbers)
    check_finite("predictions of a site", site.model.predict(site_data("a")[3]))


class Disturbed(InProcess):
    """One site's replies are changed on their way."""

    def __init__(self, sites: list[Site], rng: np.random.Generator) -> None:
        super().__init__(sites)
        self.rng, self.victim = rng, str(pick(rng, NAMES))

    def _from(self, name: str, message: Message) -> Any:
        message = super()._from(name, message)
        if name != self.victim or self.rng.random() < 0.7:
            return message
        return mutant(self.rng, message) or Fault("not a message of corank")


def to_coordinator(rng: np.random.Generator, folder: Path) -> None:
    """Messages of a site, to a coordinator and through it to the others."""
    sites = [deepcopy(fitted_site(name, False)) for name in NAMES]
    on_missing, report = pick(rng, ["stop", "continue"]), bool(rng.integers(2))
    schedule = pick(rng, ["sequential", "parallel"])
    plan = Plan(
        "run", NAMES, 0.4, schedule=schedule, report=report, max_rounds=6, on_missing=on_missing
    )
    channel = Disturbed(sites, rng)
    try:
        result = Coordinator(plan, channel).run()
    except (RunStopped, SharedItemsError):
        return
    check_finite("predictions of a run", result.predictions)
    honest = [name for name in result.lost if name != channel.victim]
    if honest:
        raise FuzzFinding(
            f"honest sites were lost: {honest}, not {channel.victim!r}: {result.lost}"
        )


@cache
def predicting_model() -> Any:
    """A model with its encoder, as `corank federated join --serve` has it."""
    X, y, _, _ = site_data("a")
    table = pa.table({"u": X[:, 0], "v": X[:, 1], "w": ["red", "blue"] * 4})
    encoder = TableEncoder()
    model = CoRLS(1, alpha=1.0).fit(encoder.fit_transform(table), y)
    model.encoder_ = encoder
    return model


def to_predictor(rng: np.random.Generator, folder: Path) -> None:
    """Items to score, sent to a site, and its scores on their way back."""
    table = pa.table({"id": ["x", "y"], "u": [0.5, 1.0], "v": [2, 3], "w": ["red", "blue"]})
    model = predicting_model()
    server = ModelServer(
        "a", lambda items: model.predict(features_of(model, items)), "regression", 100
    )
    asked = mutant(rng, question(table, "rows 1 to 2"))
    if asked is not None:
        answered(server, asked)

    class Channel(Disturbed):
        def __init__(self) -> None:
            InProcess.__init__(self, [server])  # type: ignore[list-item]
            self.rng, self.victim = rng, "a"

    try:
        scores = joint_prediction(Channel(), ["a"], table)
    except RunStopped:
        return
    check_finite("joint predictions", scores["a"])


@cache
def finished_states() -> Path:
    """State files of a run in which all three sites have answered four rounds."""
    folder = Path(tempfile.mkdtemp(prefix="corank-fuzz-"))
    sites = [make_site(name, state=folder / f"{name}.state") for name in NAMES]
    Coordinator(state_plan(4), InProcess(sites), state=folder / "coordinator.state").run()
    return folder


def state_plan(max_rounds: int) -> Plan:
    """The plan under which states are written and taken up."""
    return Plan("run", NAMES, 0.4, max_rounds=max_rounds, accelerate=False)


def states(rng: np.random.Generator, folder: Path) -> None:
    """State files that were damaged, or written by someone who knows how to."""
    shutil.copytree(finished_states(), folder, dirs_exist_ok=True)
    owner = pick(rng, ["coordinator", *NAMES])
    path = folder / f"{owner}.state"
    if rng.random() < 0.4:
        path.write_bytes(changed_bytes(rng, path.read_bytes()))
    else:
        facts, arrays = read_state(path) or ({}, {})
        if rng.random() < 0.7:
            facts = changed_value(rng, facts)
        elif arrays:
            name = pick(rng, list(arrays))
            arrays = {**arrays, name: changed_array(rng, arrays[name])}
        try:
            write_state(path, facts, arrays)
        except (ValueError, TypeError):  # cannot be written
            return
    try:
        sites = [
            (
                make_site(name, state=folder / f"{name}.state")
                if name == owner
                else deepcopy(fitted_site(name, False))
            )
            for name in NAMES
        ]
        result = Coordinator(
            state_plan(7), InProcess(sites), state=folder / "coordinator.state"
        ).run()
    except (StateError, RunStopped):
        return
    check_finite("predictions after a restart", result.predictions)


def changed_array(rng: np.random.Generator, array: Any) -> Any:
    """An array with odd numbers, or of another shape."""
    new = changed_numbers(rng, np.ravel(array))
    new = np.zeros(0) if new is None else new
    return (
        new.reshape(np.shape(array)) if new.size == np.size(array) and rng.random() < 0.8 else new
    )


@cache
def finished_checkpoint() -> tuple[Path, Any]:
    """Files of rows, a checkpoint of a fit of them, and what the fit predicts."""
    folder = Path(tempfile.mkdtemp(prefix="corank-fuzz-"))
    X = np.random.default_rng(0).normal(size=(60, 2))
    columns = {
        "y": np.sin(X[:, 0]) + X[:, 1],
        "q": np.arange(60) // 6,
        "x0": X[:, 0],
        "x1": X[:, 1],
    }
    write_table(columns, folder / "rows.parquet")
    return folder, checkpoint_fit(folder, folder / "kept")


def checkpoint_fit(rows: Path, kept: Path) -> Any:
    """Predictions of a fit with a checkpoint."""
    made = scan(rows / "rows.parquet", score="y", query="q", chunk_rows=15)
    return RankRLS(1.0, basis=8, random_state=0).fit(made, checkpoint=kept).predict(np.eye(2))


def checkpoints(rng: np.random.Generator, folder: Path) -> None:
    """Checkpoints that were damaged, or written by someone who knows how to."""
    rows, wanted = finished_checkpoint()
    kept = shutil.copytree(rows / "kept", folder / "kept")
    path = pick(rng, sorted(kept.iterdir()))
    forged = path.suffix == ".sums" and rng.random() < 0.6
    if not forged:
        path.write_bytes(changed_bytes(rng, path.read_bytes()))
    else:
        header, arrays = read_model(path)
        header.pop("corank")
        if rng.random() < 0.6 or not arrays:
            header = changed_value(rng, header)
        else:
            name = pick(rng, list(arrays))
            arrays = {**arrays, name: changed_array(rng, arrays[name]).astype(arrays[name].dtype)}
        try:
            write_model(path, header, arrays, overwrite=True)
        except (ValueError, TypeError):
            return
    predictions = checkpoint_fit(rows, kept)
    if not forged and np.abs(predictions - wanted).max() > 1e-7 * np.abs(wanted).max():
        raise FuzzFinding(f"damage of {path.name} went unnoticed")
    check_finite("predictions of a fit that went on", predictions)


TARGETS: list[Callable[[np.random.Generator, Path], None]] = [
    to_site, to_site, to_coordinator, to_coordinator, to_predictor, states, states, checkpoints,
]  # fmt: skip


# ---- cases


def is_sentence(error: BaseException) -> bool:
    """Whether corank itself raised an error, in order to say something."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    is_ours = f"corank{'/'}" in frame.filename.replace("\\", "/") and (frame.line or "").startswith(
        ("raise", "_bad(")
    )
    return is_ours and isinstance(error, ValueError | OSError | TypeError) and bool(str(error))


@contextmanager
def silent_log() -> Iterator[None]:
    """Sites and coordinators log nothing meanwhile."""
    logger = logging.getLogger(NAME)
    before = logger.disabled
    logger.disabled = True
    try:
        yield
    finally:
        logger.disabled = before


def case(seed: int, number: int) -> str | None:
    """What is wrong with one case, if anything."""
    rng = np.random.default_rng([seed, number])
    target = TARGETS[number % len(TARGETS)]
    repeat = f"{target.__name__}: fuzz.messages.case({seed}, {number})"
    began = time.monotonic()
    with (
        silent_log(),
        tempfile.TemporaryDirectory(prefix="corank-fuzz-") as folder,
        warnings.catch_warnings(),
        np.errstate(all="ignore"),
    ):
        warnings.simplefilter("ignore")
        try:
            target(rng, Path(folder))
        except Exception as error:  # noqa: BLE001  whatever it is, it is what is looked for
            if not is_sentence(error):
                frame = traceback.extract_tb(error.__traceback__)[-1]
                where = f"{Path(frame.filename).name}:{frame.lineno}"
                return f"{repeat} ends with {type(error).__name__} at {where}: {str(error)[:200]}"
    seconds = time.monotonic() - began
    return f"{repeat} takes {seconds:.0f} s" if seconds > MAX_SECONDS else None


def run(seed: int, count: int) -> list[str]:
    """Try so many cases; a sentence for each that went wrong."""
    try:
        return [finding for number in range(count) if (finding := case(seed, number)) is not None]
    finally:
        for made in (finished_states, finished_checkpoint):
            if made.cache_info().currsize:
                result = made()
                shutil.rmtree(result if isinstance(result, Path) else result[0], ignore_errors=True)
                made.cache_clear()
