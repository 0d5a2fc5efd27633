"""What happens inside the process of one case: warm-up, interleaved timing, profiles, or one memory
measurement.
"""

from __future__ import annotations

import datetime as dt
import importlib.util
import os
import sys
from dataclasses import asdict
from typing import Any

from benchmarks.measure import best_rates, measured_rates, peak_memory_mb, profile, seconds
from benchmarks.registry import CASES, Case, Contender


def time_case(name: str, *, quick: bool, repeats: int) -> dict[str, Any]:
    """Times, shares of the bound, held-out errors and profiles of all contenders of a case."""
    case = CASES[name]
    _warm_up(case)
    contenders = case.build(quick)
    records: dict[str, dict[str, Any]] = {one.name: _blank(one, contenders) for one in contenders}
    load, before = os.getloadavg(), measured_rates(quick)
    for repeat in range(repeats):  # one round after the other, so that noise hits all alike
        for one in contenders:
            record = records[one.name]
            if "missing" in record:
                continue
            _say(f"{name}: {one.name}, {repeat + 1} of {repeats}")
            try:
                spent, result = seconds(one.run)
                record["seconds"].append(spent)
                if repeat == 0 and one.error is not None:
                    record["error"] = one.error(result)
                del result
            except Exception as error:  # noqa: BLE001  (a peer that fails must not take the others with it)
                record["missing"] = f"{type(error).__name__}: {error}"
    rates = best_rates(before, measured_rates(quick))
    for one in contenders:
        record = records[one.name]
        record["best"] = min(record["seconds"], default=None)
        if one.work is not None:
            record |= {
                "flops": one.work.flops,
                "exps": one.work.exps,
                "bound": one.work.bound(rates),
            }
            record["share_of_bound"] = record["bound"] / record["best"] if record["best"] else None
    for one in contenders:
        if one.profiled and "missing" not in records[one.name]:
            _say(f"{name}: {one.name}, where the time goes")
            records[one.name]["profile"] = profile(one.run)
    return {
        "about": case.about,
        "quick": quick,
        "repeats": repeats,
        "date": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        "load_before": load[0],
        "rates": asdict(rates),
        "contenders": records,
    }


def memory_of(name: str, contender: str, *, quick: bool) -> float | None:
    """The peak memory of one contender above that just before, in MB, in a process that ran nothing
    else at size.
    """
    case = CASES[name]
    _warm_up(case, only=contender)
    run = next(one.run for one in case.build(quick) if one.name == contender)
    _say(f"{name}: {contender}, memory")
    return peak_memory_mb(run)


def _warm_up(case: Case, only: str | None = None) -> None:
    """Run at a size that takes no time: what happens once in a process (imports, BLAS buffers) is
    done then.
    """
    for one in case.build(True):
        if _missing(one) is None and only in (None, one.name):
            try:
                one.run()
            except Exception as error:  # noqa: BLE001  (shows again when it counts)
                _say(f"{case.name}: {one.name} fails: {error}")


def _missing(contender: Contender) -> str | None:
    """Why a contender cannot run here."""
    needs = contender.needs
    return (
        None
        if needs is None or importlib.util.find_spec(needs) is not None
        else f"{needs} is not installed"
    )


def _blank(contender: Contender, contenders: list[Contender]) -> dict[str, Any]:
    record: dict[str, Any] = {"beside": contender.beside or contenders[0].name, "seconds": []}
    missing = _missing(contender)
    return record if missing is None else record | {"missing": missing}


def _say(text: str) -> None:
    """Progress, for whoever watches."""
    print(text, file=sys.stderr, flush=True)
