"""The TOML files of a coordinator and of a site, read strictly: a word that is not known is an
error that says so.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography import x509

from corank.core.messages import did_you_mean
from corank_federated.certificates import (
    COORDINATOR,
    Identity,
    check_identity,
    check_name,
    read_certificate,
)
from corank_federated.coordinator import Plan
from corank_federated.site import Limits

MISSING: Any = object()
ADDRESS = re.compile(r"\S+:[0-9]{1,5}")


class SettingsError(ValueError):
    """A settings file that cannot be used; names the file, the word and what to do."""


class SettingsSection:
    """One table of a TOML file; every word must be taken before `end`."""

    def __init__(self, content: Mapping[str, Any], file: Path, name: str = "") -> None:
        self.content, self.file, self.name = dict(content), file, name
        self._taken: list[str] = []

    def _wrong(self, word: str, what: str) -> SettingsError:
        where = f"{word} in [{self.name}]" if self.name else word
        return SettingsError(f"{self.file}: {where} {what}.")

    def take(
        self, word: str, kinds: type | tuple[type, ...], what: str, default: Any = MISSING
    ) -> Any:
        """The value of a word, of one of the kinds; `what` says in words which."""
        self._taken.append(word)
        if word not in self.content:
            if default is MISSING:
                raise self._wrong(word, f"is missing; it should be {what}")
            return default
        value = self.content.pop(word)
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in _tuple(kinds)):
            raise self._wrong(word, f"should be {what}, got {value!r}")
        return value

    def text(self, word: str, default: Any = MISSING) -> Any:
        """Text."""
        return self.take(word, str, "text", default)

    def number(self, word: str, default: Any = MISSING) -> Any:
        """A number."""
        value = self.take(word, (int, float), "a number", default)
        return float(value) if isinstance(value, int) else value

    def count(self, word: str, default: int) -> int:
        """A whole number from 1."""
        value = int(self.whole(word, default))
        if value < 1:
            raise self._wrong(word, f"should be a whole number from 1, got {value}")
        return value

    def address(self, word: str) -> str:
        """Host and port."""
        value = str(self.text(word))
        if not ADDRESS.fullmatch(value):
            raise self._wrong(word, f"should be host:port, such as 'localhost:8470', got {value!r}")
        return value

    def whole(self, word: str, default: Any = MISSING) -> Any:
        """A whole number."""
        return self.take(word, int, "a whole number", default)

    def flag(self, word: str, default: bool) -> bool:
        """True or false."""
        return bool(self.take(word, bool, "true or false", default))

    def texts(self, word: str) -> list[str]:
        """A list of text, perhaps empty."""
        texts = self.take(word, list, "a list of text", [])
        if not all(isinstance(text, str) for text in texts):
            raise self._wrong(word, f"should be a list of text, got {texts!r}")
        return list(texts)

    def path(self, word: str, default: Any = MISSING) -> Any:
        """A path, counted from the folder of the file."""
        value = self.text(word, default)
        return None if value is None else self.file.parent / value

    def section(self, word: str, *, needed: bool = True) -> SettingsSection | None:
        """A table within this one."""
        table = self.take(word, dict, "a table", MISSING if needed else None)
        return (
            None
            if table is None
            else SettingsSection(table, self.file, f"{self.name}.{word}".lstrip("."))
        )

    def sections(self, word: str) -> list[SettingsSection]:
        """A list of tables."""
        tables = self.take(word, list, "a list of tables")
        if not all(isinstance(table, dict) for table in tables):
            raise self._wrong(word, "should be a list of tables")
        return [SettingsSection(table, self.file, word) for table in tables]

    def end(self) -> None:
        """Refuse words that nothing asked for."""
        for word in self.content:
            guess = did_you_mean(word, self._taken, 1) or f"; known are {', '.join(self._taken)}"
            raise self._wrong(word, f"is not known{guess}")


def _tuple(kinds: type | tuple[type, ...]) -> tuple[type, ...]:
    return kinds if isinstance(kinds, tuple) else (kinds,)


@dataclass(frozen=True)
class Certificates:
    """Where an end of the network has its certificates."""

    authority: Path
    certificate: Path
    key: Path

    @classmethod
    def read(cls, section: SettingsSection) -> Certificates:
        """From [certificates]."""
        certificates = cls(
            section.path("authority"), section.path("certificate"), section.path("key")
        )
        section.end()
        return certificates

    def load(self, name: str) -> tuple[Identity, x509.Certificate]:
        """The certificates, checked before anything is connected."""
        identity, authority = (
            Identity.read(self.certificate, self.key),
            read_certificate(self.authority),
        )
        check_identity(identity, authority, name, self.certificate)
        return identity, authority


@dataclass(frozen=True)
class SharedSettings:
    """Which items are shared: a file, or a recipe."""

    file: Path | None
    id: str
    query: str | None
    agreed: list[str]
    recipe: dict[str, Any] | None

    @classmethod
    def read(cls, section: SettingsSection) -> SharedSettings:
        """From [shared]."""
        synthetic = section.section("synthetic", needed=False)
        recipe = None
        if synthetic is not None:
            recipe = {"items": synthetic.whole("items"), "seed": synthetic.whole("seed")}
            recipe |= {"query_size": synthetic.whole("query_size", None)}
            recipe |= {"columns": [column.content for column in synthetic.sections("columns")]}
            synthetic.end()
        file = section.path("file", None)
        if (file is None) == (recipe is None):
            raise SettingsError(
                f"{section.file}: [shared] needs either file or [shared.synthetic]."
            )
        query = section.text("query", "query" if recipe and recipe["query_size"] else None)
        shared = cls(file, section.text("id", "id"), query, section.texts("agreed"), recipe)
        section.end()
        return shared


@dataclass(frozen=True)
class CoordinatorSettings:
    """What `corank federated coordinate` needs."""

    plan: Plan
    address: str
    certificates: Certificates
    pins: dict[str, str | None]
    state: Path
    shared: SharedSettings | None
    join_timeout: float
    answer_timeout: float
    handshake_timeout: float
    max_connections: int
    max_items: int


def read_coordinator(path: Path) -> CoordinatorSettings:
    """From a TOML file."""
    top = _read(path)
    certificates = Certificates.read(_needed(top.section("certificates")))
    pins: dict[str, str | None] = {}
    for site in top.sections("sites"):
        name = check_name(site.text("name"))
        if name in pins:
            raise SettingsError(f"{path}: [[sites]] names {name!r} twice.")
        pins[name] = site.text("fingerprint", None)
        site.end()
    shared = top.section("shared", needed=False)
    given = {
        "run": top.text("run"),
        "sites": tuple(pins),
        "agreement": top.number("agreement"),
        "schedule": top.text("schedule", Plan.schedule),
        "accelerate": top.flag("accelerate", Plan.accelerate),
        "report": top.flag("report", Plan.report),
        "tol": top.number("tol", Plan.tol),
        "max_rounds": top.whole("max_rounds", Plan.max_rounds),
        "on_missing": top.text("on_missing", Plan.on_missing),
        "min_sites": top.whole("min_sites", Plan.min_sites),
    }
    try:
        plan = Plan(**given)
    except ValueError as error:
        raise SettingsError(f"{path}: {error}") from error
    settings = CoordinatorSettings(
        plan=plan,
        address=top.address("address"),
        certificates=certificates,
        pins=pins,
        state=top.path("state", f"{COORDINATOR}.state"),
        shared=None if shared is None else SharedSettings.read(shared),
        join_timeout=_positive(top, "join_timeout", 600.0),
        answer_timeout=_positive(top, "answer_timeout", 600.0),
        handshake_timeout=_positive(top, "handshake_timeout", 10.0),
        max_connections=top.count("max_connections", 256),
        max_items=top.count("max_items", 1_000_000),
    )
    top.end()
    return settings


@dataclass(frozen=True)
class DataSettings:
    """The private rows of a site."""

    file: Path
    score: str
    query: str | None
    id: str | None
    features: list[str]
    drop: list[str]


@dataclass(frozen=True)
class SiteSettings:
    """What `corank federated join` needs."""

    name: str
    coordinator: str
    certificates: Certificates
    data: DataSettings
    shared: SharedSettings
    task: str
    learner: dict[str, Any]
    limits: Limits
    model: Path
    state: Path
    patience: float
    max_items: int
    predicts: bool
    predict_items: Path | None
    predict_rows: int


TASKS = ("regression", "ranking")
LEARNER = {  # words of [learner], and what they may be
    "kernel": (str, "the name of a kernel"),
    "gamma": ((int, float, str, list), "a number, 'scale', 'tune' or a list"),
    "alpha": ((int, float, str, list), "a number, 'tune' or a list"),
    "basis": ((int, str), "a number, 'auto', 'all', 'scored' or 'features'"),
    "basis_selection": (str, "'pivoted' or 'random'"),
    "degree": ((int, float), "a number"),
    "coef0": ((int, float), "a number"),
    "random_state": (int, "a whole number"),
}
OF_TASK: dict[str, dict[str, Any]] = {
    "regression": {"fit_intercept": (bool, "true or false")},
    "ranking": {
        "weighting": (str, "'size', 'unit' or 'query'"),
        "beta": ((int, float), "a number from 0 to 1"),
    },
}


def read_site(path: Path) -> SiteSettings:
    """From a TOML file."""
    top = _read(path)
    name = check_name(top.text("name"))
    task, learner = _learner(_needed(top.section("learner")))
    limits, predict = top.section("limits", needed=False), top.section("predict", needed=False)
    predict = predict or SettingsSection({}, path, "predict")
    settings = SiteSettings(
        name=name,
        coordinator=top.address("coordinator"),
        certificates=Certificates.read(_needed(top.section("certificates"))),
        data=_data(_needed(top.section("data"))),
        shared=SharedSettings.read(_needed(top.section("shared"))),
        task=task,
        learner=learner,
        limits=Limits() if limits is None else _limits(limits),
        model=top.path("model", f"{name}.corank"),
        state=top.path("state", f"{name}.state"),
        patience=_positive(top, "patience", 600.0),
        max_items=top.count("max_items", 1_000_000),
        predicts=predict.flag("allowed", False),
        predict_items=predict.path("items", None),
        predict_rows=predict.count("rows", 100_000),
    )
    predict.end()
    top.end()
    return settings


def _read(path: Path) -> SettingsSection:
    try:
        return SettingsSection(tomllib.loads(path.read_text(encoding="utf-8")), path)
    except FileNotFoundError as error:
        raise SettingsError(f"there is no file {path}; corank federated init makes one.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path} is not TOML: {error}.") from error


def _needed(section: SettingsSection | None) -> SettingsSection:
    assert section is not None
    return section


def _positive(section: SettingsSection, word: str, default: float) -> float:
    value = float(section.number(word, default))
    if not value > 0:
        raise SettingsError(f"{section.file}: {word} must be greater than 0, got {value:g}.")
    return value


def _data(section: SettingsSection) -> DataSettings:
    data = DataSettings(
        section.path("file"),
        section.text("score"),
        section.text("query", None),
        section.text("id", None),
        section.texts("features"),
        section.texts("drop"),
    )
    section.end()
    return data


def _learner(section: SettingsSection) -> tuple[str, dict[str, Any]]:
    task = section.text("task")
    if task not in TASKS:
        raise SettingsError(
            f"{section.file}: task in [learner] must be 'regression' or 'ranking', got {task!r}."
        )
    if (method := section.content.get("method")) is not None:
        raise SettingsError(
            f"{section.file}: method in [learner] is {method!r}, but sites fit CoRLS (regression)"
            " or CoRankRLS (ranking) and nothing else: averages need all scored rows in one place;"
            " leave it out."
        )
    allowed: dict[str, Any] = {**LEARNER, **OF_TASK[task]}
    given = {word: section.take(word, kinds, what, None) for word, (kinds, what) in allowed.items()}
    section.end()
    return task, {word: value for word, value in given.items() if value is not None}


def _limits(section: SettingsSection) -> Limits:
    given: dict[str, Any] = {
        "rounds": section.whole("rounds", Limits.rounds),
        "norm": section.number("norm", None),
    }
    given |= {"report": section.flag("report", Limits.report)}
    section.end()
    try:
        return Limits(**given)
    except ValueError as error:
        raise SettingsError(f"{section.file}: [limits] {error}") from error
