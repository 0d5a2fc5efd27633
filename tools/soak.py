"""Faults without end: a coordinator and three sites, streamed fits and a Dask cluster, disturbed
for minutes; a table.

    python tools/soak.py --minutes 60

Sites learn together in one run after the other, while processes are killed, links cut, stalled and
slowed down, clocks set wrong, disks filled and certificates expire. Beside them, streamed fits meet
a full disk while they write checkpoints, and fits on a Dask cluster lose their scheduler. Nothing
may be lost or counted twice, results must be those of an unbroken run, and memory and open files
must not grow. It ends with status 1 where that is not so.

Full disks are small file systems in memory (needs root) and wrong clocks a library that is compiled
(needs cc); where one cannot be had, the table says so.
"""

from __future__ import annotations

import argparse
import asyncio
import errno
import itertools
import json
import mmap
import os
import random
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

NAMES = ("north", "south", "west")
PARTIES = ("coordinator", *NAMES)
KILLED = ("coordinator", "south")  # the others live on, so that what leaks adds up
CLOSE = 1e-7
FLAT = 1.05
WINDOW = 30  # samples, one per second, in which memory and open files are judged
FULL = "filler"
DISK_BYTES = 4 << 20

# ---- the parties, each a process of its own


def rows_of(name: str) -> tuple[Any, Any, Any]:
    """Features and scores of a site's rows, and the shared items: the same in every process."""
    rng = np.random.default_rng(NAMES.index(name))
    X = rng.normal(size=(30, 3))
    scores = np.sin(X[:, 0]) + X[:, 1] + 0.1 * rng.normal(size=30)
    return X, scores, np.random.default_rng(9).normal(size=(40, 3))


def site_of(name: str, state: Path | None) -> Any:
    from corank import CoRLS
    from corank_federated import Limits, SharedItems, Site

    X, scores, items = rows_of(name)
    learner = CoRLS(alpha=0.5, gamma=0.3)
    return Site(
        name, learner, X, scores, SharedItems(items), limits=Limits(rounds=10**9), state=state
    )


def plan_of(number: int) -> Any:
    from corank_federated import Plan

    schedule = "parallel" if number % 3 == 0 else "sequential"
    return Plan(
        f"run {number}", NAMES, 1.0, schedule=schedule, accelerate=number % 2 == 0, max_rounds=5000
    )


def unbroken() -> Any:
    """What every site should predict on the shared items, (sites, items)."""
    from corank_federated import Coordinator, InProcess

    return (
        Coordinator(plan_of(2), InProcess([site_of(name, None) for name in NAMES]))
        .run()
        .predictions
    )


def difference(got: Any, wanted: Any) -> float:
    return float(np.linalg.norm(np.asarray(got) - wanted) / np.linalg.norm(wanted))


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def add_line(path: Path, **facts: Any) -> None:
    with path.open("a") as file:
        file.write(json.dumps(facts) + "\n")


def coordinate(folder: Path) -> None:
    """Run after run; one that was broken off goes on from its state."""
    from corank_federated import Coordinator
    from corank_federated.certificates import Identity, read_certificate
    from corank_federated.network import GrpcChannel

    place, results = folder / "coordinator", folder / "coordinator.lines"
    identity = Identity.read(place / "coordinator.pem", place / "coordinator.key")
    authority = read_certificate(place / "authority.pem")
    port = int((folder / "port").read_text())
    wanted = unbroken()
    for number in itertools.count(len(lines_of(results)) + 1):
        state = place / f"{number}.state"
        while True:
            if (folder / "stop").exists():
                return
            try:
                channel = GrpcChannel(
                    f"127.0.0.1:{port}",
                    identity,
                    authority,
                    dict.fromkeys(NAMES),
                    join_timeout=600,
                    answer_timeout=600,
                    handshake_timeout=5,
                )
                try:
                    report = Coordinator(plan_of(number), channel, state=state).run()
                finally:
                    channel.close()
                break
            except OSError as error:  # a full disk, or a port that is not yet free
                print(f"run {number}: {type(error).__name__}: {error}", flush=True)
                time.sleep(0.2)
        facts = {"run": number, "rounds": report.n_rounds, "converged": report.converged}
        add_line(results, **facts, difference=difference(report.predictions, wanted))
        state.unlink()


def join(folder: Path, name: str) -> None:
    """Take part in one run after the other, in the same process."""
    from corank_federated.certificates import CertificateError, Identity, read_certificate
    from corank_federated.network import Connection

    place = folder / name
    wanted = unbroken()[NAMES.index(name)]
    _, _, items = rows_of(name)
    site = site_of(name, place / "state")

    def keep(site: Any) -> None:
        site.model.save(place / "model.corank", overwrite=True)
        facts = {"run": site.terms.run, "rounds": site._memory.round, "answered": site.answered}
        add_line(
            folder / f"{name}.lines",
            **facts,
            difference=difference(site.model.predict(items), wanted),
        )

    site.keep = keep
    address = f"127.0.0.1:{(folder / f'{name}.port').read_text()}"
    while not (folder / "stop").exists():
        try:
            identity = Identity.read(place / f"{name}.pem", place / f"{name}.key")
            line = Connection(
                address, identity, read_certificate(place / "authority.pem"), patience=20
            )
            line.answer(site)
        # a full disk, JoinError, a certificate that is being replaced
        except (OSError, CertificateError) as error:
            print(f"{type(error).__name__}: {error}", flush=True)
            time.sleep(0.2)


# ---- streamed fits


def make_files(folder: Path) -> Path:
    from corank.tables import write_table

    rows = folder / "rows"
    rows.mkdir()
    rng = np.random.default_rng(3)
    for number in range(6):
        X = rng.normal(size=(400, 4))
        table = {"y": X[:, 0] + np.sin(X[:, 1]), "q": np.arange(400) // 20 + 20 * number}
        write_table(
            {**table, **{f"x{column}": X[:, column] for column in range(4)}},
            rows / f"{number}.parquet",
        )
    return rows


def unhurried(features: Any) -> Any:
    """Give a fault time to strike."""
    time.sleep(0.04)
    return features


def fitted(rows: Path, checkpoint: Path | None, client: Any = None) -> Any:
    from corank import RankRLS, scan

    made = scan(rows, score="y", query="q", client=client).map(unhurried)
    return (
        RankRLS(1.0, basis=40, random_state=0).fit(made, checkpoint=checkpoint).predict(np.eye(4))
    )


def stream(folder: Path) -> None:
    """Fits whose checkpoint meets a full disk, again and again."""
    rows, disk = make_files(folder / "streamed"), folder / "streamed/disk"
    wanted = fitted(rows, None)
    rng = random.Random(1)
    while not (folder / "stop").exists():
        ending = threading.Event()
        filling = threading.Thread(target=fill_at_random, args=(disk, rng, ending))
        filling.start()
        failures = 0
        while True:
            try:
                got = fitted(rows, disk / "kept")
                break
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
                failures += 1
        ending.set()
        filling.join()
        add_line(folder / "stream.lines", failures=failures, difference=difference(got, wanted))
        time.sleep(1.0)  # leave the processors to the others
        leftovers = [path.name for path in (disk / "kept").glob("*.part")]
        assert not leftovers, leftovers
        shutil.rmtree(disk / "kept")


def fill_at_random(disk: Path, rng: random.Random, ending: threading.Event) -> None:
    while not ending.wait(rng.uniform(0.0, 0.3)):
        fill(disk)
        ending.wait(rng.uniform(0.0, 0.2))
        (disk / FULL).unlink(missing_ok=True)


def fill(disk: Path) -> None:
    with suppress(OSError), (disk / FULL).open("wb", buffering=0) as file:
        for size in (1 << 16, 1 << 12, 1):
            with suppress(OSError):
                while file.write(b"0" * size):
                    pass


def dask(folder: Path) -> None:
    """Fits whose scheduler is killed, and which go on with another one."""
    from distributed import Client

    import corank.streaming.dask as cluster

    cluster.BATCH_UNITS = 2
    rows = make_files(folder / "dask")
    wanted = fitted(rows, None)
    kept, rng = folder / "dask/kept", random.Random(2)
    processes: list[subprocess.Popen[bytes]] = []

    def begin() -> Any:
        port = free_port()
        address = f"tcp://127.0.0.1:{port}"
        log = (folder / "dask.log").open("ab")
        for words in (
            ["scheduler", "--port", str(port), "--no-dashboard"],
            *2 * [["worker", address, "--nthreads", "1"]],
        ):
            command = [sys.executable, "-m", "dask", *words]
            processes.append(subprocess.Popen(command, stdout=log, stderr=log, cwd=folder / "dask"))
        return Client(address, timeout=600)  # a machine under load starts schedulers slowly

    def end() -> None:
        for process in processes:
            process.kill()
            process.wait()
        processes.clear()

    try:
        while not (folder / "stop").exists():
            client, killed = begin(), threading.Event()

            def kill_scheduler(
                killed: threading.Event = killed, delay: float = rng.uniform(0.0, 0.5)
            ) -> None:
                while not list(kept.glob("*.sums")) and not killed.is_set():
                    time.sleep(0.01)
                time.sleep(delay)
                processes[0].kill()
                killed.set()

            killer = threading.Thread(target=kill_scheduler)
            killer.start()
            broken = 0
            try:
                got = fitted(rows, kept, client)
            except ConnectionError:
                broken = 1
            killed.set()
            killer.join()
            client.close(timeout=1)
            end()
            if broken:
                client = begin()
                got = fitted(rows, kept, client)
                client.close()
                end()
            add_line(folder / "dask.lines", failures=broken, difference=difference(got, wanted))
            shutil.rmtree(kept)
    finally:
        end()


# ---- faults


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


class Link:
    """Carries bytes between a site and the coordinator, unless it is cut, or stalled, or slow."""

    def __init__(self, target: int) -> None:
        self.target, self.port = target, free_port()
        self.cut = self.stalled = False
        self.delay = 0.002
        self._open: set[asyncio.StreamWriter] = set()
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(asyncio.start_server(self._accept, "127.0.0.1", self.port))
        self._loop.run_forever()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if self.cut:
                raise ConnectionError
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self.target)
        except OSError:
            writer.close()
            return
        self._open |= {writer, far_writer}
        await asyncio.gather(self._carry(reader, far_writer), self._carry(far_reader, writer))
        self._open -= {writer, far_writer}

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while content := await reader.read(1 << 16):
                await asyncio.sleep(self.delay)
                while self.stalled:
                    await asyncio.sleep(0.05)
                writer.write(content)
                await writer.drain()
        writer.close()

    def hang_up(self) -> None:
        """Break the connections that are open."""
        for writer in list(self._open):
            self._loop.call_soon_threadsafe(writer.transport.abort)


CLOCK = """
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile long *ahead;

__attribute__((constructor)) static void begin(void) {
    int file = open(getenv("SOAK_CLOCK"), O_RDONLY);
    void *page = mmap(NULL, sizeof(long), PROT_READ, MAP_SHARED, file, 0);
    ahead = page == MAP_FAILED ? NULL : page;
    close(file);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    int status = (int)syscall(SYS_clock_gettime, clock, now);
    if (status == 0 && ahead && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += *ahead;
    return status;
}

time_t time(time_t *result) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (result) *result = now.tv_sec;
    return now.tv_sec;
}

int gettimeofday(struct timeval *result, void *zone) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    result->tv_sec = now.tv_sec;
    result->tv_usec = now.tv_nsec / 1000;
    return 0;
}
"""


@dataclass
class Sample:
    """Resident memory and open files of a process at a time."""

    when: float
    pid: int
    megabytes: float
    files: int


@dataclass
class Soak:
    """The processes of a soak and what is done to them."""

    folder: Path
    minutes: float
    rng: random.Random
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    samples: dict[str, list[Sample]] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    missing: list[str] = field(default_factory=list)

    def prepare(self) -> None:
        """Folders, certificates, small disks, links and clocks."""
        from corank_federated.certificates import issued, new_authority, pem

        self.authority = new_authority(days=2)
        mounted = [self._small_disk(name) for name in (*PARTIES, "streamed/disk")]
        self.disks = all(mounted)
        if not self.disks:
            self.missing.append("full disks: no small file system can be mounted")
        (self.folder / "dask").mkdir()
        for name in PARTIES:
            (self.folder / name / "authority.pem").write_bytes(pem(self.authority.certificate))
            issued(self.authority, name, 1).write(self.folder / name, name)
            (self.folder / f"{name}.clock").write_bytes(struct.pack("l", 0))
        port = free_port()
        (self.folder / "port").write_text(str(port))
        self.links = {name: Link(port) for name in NAMES}
        for name, link in self.links.items():
            (self.folder / f"{name}.port").write_text(str(link.port))
        source, self.clock = self.folder / "clock.c", self.folder / "clock.so"
        source.write_text(CLOCK)
        with suppress(OSError):
            subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", self.clock, source], check=False)
        if not self.clock.exists():
            self.missing.append("wrong clocks: no C compiler")

    def _small_disk(self, name: str) -> bool:
        place = self.folder / name
        place.mkdir(parents=True)
        command = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(place)]
        with suppress(OSError):
            return subprocess.run(command, check=False, capture_output=True).returncode == 0
        return False

    def start(self, who: str) -> None:
        """Start a process, or start it again."""
        environment = {
            **os.environ,
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
            "GRPC_VERBOSITY": "NONE",
        }
        if self.clock.exists() and who in PARTIES:
            environment |= {
                "LD_PRELOAD": str(self.clock),
                "SOAK_CLOCK": str(self.folder / f"{who}.clock"),
            }
        with (self.folder / f"{who}.log").open("ab") as log:
            command = [sys.executable, __file__, "--party", who, "--folder", str(self.folder)]
            self.processes[who] = subprocess.Popen(command, stdout=log, stderr=log, env=environment)

    def watch(self, ending: threading.Event) -> None:
        """Sample memory and open files."""
        page = os.sysconf("SC_PAGE_SIZE") / 1e6
        while not ending.wait(1.0):
            for who in PARTIES:
                pid = self.processes[who].pid
                with suppress(OSError, ValueError, IndexError):
                    megabytes = int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * page
                    files = len(list(Path(f"/proc/{pid}/fd").iterdir()))
                    self.samples.setdefault(who, []).append(
                        Sample(time.monotonic(), pid, megabytes, files)
                    )

    # ---------------------------------------------------------------- one method per fault

    def kill(self) -> None:
        """A process is killed and started again."""
        who = self.rng.choice(KILLED)
        self.processes[who].kill()
        self.processes[who].wait()
        time.sleep(self.rng.uniform(0.0, 1.0))
        self.start(who)

    def cut(self) -> None:
        """A link breaks and cannot be made again for a while."""
        with self.changed_link("cut") as link:
            link.hang_up()

    def stall(self) -> None:
        """Nothing passes a link for a while, without a word."""
        long = self.minutes >= 10 and self.rng.random() < 0.2  # longer than it takes to notice
        with self.changed_link("stalled", 18.0 if long else None):
            pass

    def slow(self) -> None:
        """A link takes its time."""
        with self.changed_link("delay", value=0.05):
            pass

    @contextmanager
    def changed_link(
        self, what: str, seconds: float | None = None, value: Any = True
    ) -> Iterator[Link]:
        """One of the links with an attribute that is changed for a while."""
        link = self.links[self.rng.choice(NAMES)]
        before = getattr(link, what)
        setattr(link, what, value)
        yield link
        time.sleep(seconds or self.rng.uniform(0.5, 3.0))
        setattr(link, what, before)

    def clock_wrong(self) -> None:
        """Somebody's clock is off, and a link breaks meanwhile."""
        who = self.rng.choice(PARTIES)
        with (
            (self.folder / f"{who}.clock").open("r+b") as file,
            mmap.mmap(file.fileno(), 8) as page,
        ):
            page[:8] = struct.pack("l", self.rng.choice([-3600, -200, 200, 400 * 86_400]))
            for link in self.links.values() if who == "coordinator" else [self.links[who]]:
                link.hang_up()
            time.sleep(self.rng.uniform(0.5, 3.0))
            page[:8] = struct.pack("l", 0)

    def disk_full(self) -> None:
        """Somebody's disk has no room for a while."""
        disk = self.folder / self.rng.choice(PARTIES)
        fill(disk)
        time.sleep(self.rng.uniform(0.5, 2.0))
        (disk / FULL).unlink(missing_ok=True)

    def expire(self) -> None:
        """A site's certificate ends during a run, its link breaks, and it gets another one."""
        self.new_certificate(timedelta(seconds=3))
        self.processes["south"].kill()
        self.processes["south"].wait()
        self.start("south")
        time.sleep(3.5)
        self.links["south"].hang_up()
        time.sleep(self.rng.uniform(0.5, 2.0))
        self.new_certificate(timedelta(days=1))

    def new_certificate(self, lifetime: timedelta) -> None:
        """Another certificate for 'south'."""
        from corank_federated.certificates import issued

        place = self.folder / "south"
        for ending in ("key", "pem"):
            (place / f"south.{ending}").unlink()
        issued(self.authority, "south", 1, datetime.now(UTC) - timedelta(days=1) + lifetime).write(
            place, "south"
        )

    # ---------------------------------------------------------------- all of it

    def run(self) -> None:
        """Disturb until the time is over, then let the run in progress end."""
        seconds = 60 * self.minutes
        helpers = ("stream", "dask") if self.disks else ("dask",)
        for who in (*PARTIES, *helpers):
            self.start(who)
        ending = threading.Event()
        watching = threading.Thread(target=self.watch, args=(ending,))
        watching.start()
        self.until_next_run()
        began = self.began = time.monotonic()
        faults: dict[str, Callable[[], None]] = {
            "kill -9": self.kill,
            "link cut": self.cut,
            "link stalled": self.stall,
        }
        faults |= {"link slow": self.slow, "certificate expired": self.expire}
        if self.clock.exists():
            faults["clock wrong"] = self.clock_wrong
        if self.disks:
            faults["disk full"] = self.disk_full
        deck: list[str] = []
        while (age := time.monotonic() - began) < seconds:
            deck = deck or self.rng.sample(list(faults), len(faults))
            name = deck.pop()
            # the second half without new processes, so that what leaks can add up in all of them
            if age > seconds / 2 and name in ("kill -9", "certificate expired"):
                continue
            faults[name]()
            self.counts[name] += 1
            time.sleep(self.rng.uniform(0.5, 3.0))
            for who in (*PARTIES, *helpers):
                if self.processes[who].poll() is not None:
                    raise SystemExit(f"{who} has ended by itself: see {self.folder / who}.log")
        self.until_next_run()
        ending.set()
        watching.join()
        (self.folder / "stop").touch()
        for who in helpers:
            self.processes[who].wait(180)

    def until_next_run(self) -> None:
        """Wait for the end of a run."""
        lines = self.folder / "coordinator.lines"
        runs, deadline = len(lines_of(lines)), time.monotonic() + 300
        while len(lines_of(lines)) == runs:
            if time.monotonic() > deadline:
                raise SystemExit(
                    f"no run has ended within five minutes: see the logs in {self.folder}"
                )
            time.sleep(0.1)

    def end(self) -> None:
        """End what was started, and give the small disks back."""
        for process in self.processes.values():
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                with suppress(subprocess.TimeoutExpired):
                    process.wait(10)
                process.kill()
            process.wait()
        for name in (*PARTIES, "streamed/disk"):
            with suppress(OSError):
                subprocess.run(
                    ["umount", str(self.folder / name)], check=False, capture_output=True
                )


# ---- the table


def table(soak: Soak) -> tuple[list[tuple[str, str, bool]], bool]:
    """Lines of the table: what, how it went, whether that is right."""
    lines: list[tuple[str, str, bool]] = []
    results = lines_of(soak.folder / "coordinator.lines")
    runs = {f"run {line['run']}": line for line in results}
    rounds = sum(line["rounds"] for line in results)
    lines.append(
        (
            "runs of three sites",
            f"{len(runs)}, {rounds:,} rounds",
            bool(runs) and len(runs) == len(results),
        )
    )
    lines.append(
        (
            "all converged",
            str(all(line["converged"] for line in results)),
            all(x["converged"] for x in results),
        )
    )
    worst = max((line["difference"] for line in results), default=np.inf)
    for name in NAMES:
        # the last, where kept twice
        kept = {line["run"]: line for line in lines_of(soak.folder / f"{name}.lines")}
        lost = [run for run in runs if run not in kept]
        counted, before = 0, 0
        for run, line in kept.items():
            counted += line["answered"] - before
            before = line["answered"]
            if run in runs and line["rounds"] != runs[run]["rounds"]:
                lost.append(run)
        wanted = sum(line["rounds"] for line in kept.values())
        worst = max([worst, *(line["difference"] for line in kept.values())])
        text = f"{counted:,} answers counted for {wanted:,} rounds, {len(lost)} models lost"
        lines.append((f"site {name}", text, counted == wanted and not lost))
    lines.append(("difference from the unbroken run", f"{worst:.1e}", worst <= CLOSE))
    for name, what in (
        ("stream", "streamed fits, disk full"),
        ("dask", "Dask fits, scheduler killed"),
    ):
        fits = lines_of(soak.folder / f"{name}.lines")
        apart = max((line["difference"] for line in fits), default=np.inf)
        failures = sum(line["failures"] for line in fits)
        text = f"{len(fits)} fits, broken off {failures} times, difference {apart:.1e}"
        lines.append((what, text, bool(fits) and failures > 0 and apart <= CLOSE))
    for who in PARTIES:
        lines.append((f"{who}, memory and files", *growth(soak, who)))
    faults = ", ".join(f"{name} {count}" for name, count in sorted(soak.counts.items()))
    lines.append(("faults", faults, True))
    lines += [("not done", why, True) for why in soak.missing]
    return lines, all(right for _, _, right in lines)


def growth(soak: Soak, who: str) -> tuple[str, bool]:
    """Memory and open files at the end beside those after a sixth of the time, or soon after the
    process was started.
    """
    pid = soak.processes[who].pid
    samples = [sample for sample in soak.samples[who] if sample.pid == pid]
    warm = max(10 * soak.minutes, 30.0)
    first = max(soak.began, samples[0].when) + warm
    early = [sample for sample in samples if sample.when >= first][:WINDOW] or samples[-1:]
    late = samples[-WINDOW:]

    def size(window: list[Sample]) -> tuple[float, int]:
        # between two connections there are fewer files
        return float(np.median([sample.megabytes for sample in window])), max(
            sample.files for sample in window
        )

    (memory, files), (memory_late, files_late) = size(early), size(late)
    age = (samples[-1].when - samples[0].when) / 60
    text = f"{memory:.1f} → {memory_late:.1f} MB, {files} → {files_late} files in {age:.1f} min"
    # one connection more or less is no leak
    return text, memory_late <= FLAT * memory and files_late <= max(FLAT * files, files + 2)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--folder",
        type=Path,
        help="where to work; default: a temporary one, kept if something is wrong",
    )
    parser.add_argument(
        "--out", type=Path, help="a page for the table, such as docs/results/soak.md"
    )
    parser.add_argument("--party", choices=(*PARTIES, "stream", "dask"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.party in NAMES:
        join(options.folder, options.party)
        return 0
    if options.party is not None:
        {"coordinator": coordinate, "stream": stream, "dask": dask}[options.party](options.folder)
        return 0
    folder = Path(options.folder or tempfile.mkdtemp(prefix="corank-soak-"))
    folder.mkdir(exist_ok=True)
    soak = Soak(folder, options.minutes, random.Random(options.seed))
    try:
        soak.prepare()
        soak.run()
        lines, right = table(soak)
    finally:
        soak.end()
    rows = [f"| {what} | {text} | {'ok' if sound else 'WRONG'} |" for what, text, sound in lines]
    page = "\n".join([f"| {options.minutes:g} minutes | | |", "|---|---|---|", *rows])
    print(f"\n{page}")
    if options.out is not None:
        command = f"python tools/soak.py --minutes {options.minutes:g} --seed {options.seed}"
        options.out.write_text(
            f"# Faults without end\n\nBy `{command}`:\n\n{page}\n", encoding="utf-8"
        )
    if not right:
        print(f"\nlogs are in {folder}")
    elif options.folder is None:
        shutil.rmtree(folder)
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
