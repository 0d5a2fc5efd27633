"""What a model file holds: for every name in the file the attribute of the learner, and the kind of
its value.

A learner declares its contents as `{name in the file: (attribute, kind)}`, made of the blocks below
and lines of its own. Kinds, and how stored objects declare those of their fields, are the subject
of `core.storable`.

The checksum of a file finds damage; whether values make sense is checked as far as a forged file
could do harm: numbers are finite, and numbers of rows, columns and queries are numbers of some that
are there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np

from corank.core.storable import (
    COUNT,
    FINITE,
    FLAG,
    NUMBER,
    TEXT,
    Kind,
    ModelFileError,
    Sizes,
    are_below,
    entries,
    feature_rows,
    floats,
    function,
    later,
    names,
    per_view,
    several,
    size,
    stored,
    whole,
)

Contents: TypeAlias = Mapping[str, tuple[str, Kind]]


def check_contents(values: Mapping[str, Any], contents: Contents) -> None:
    """Refuse values of attributes that are not of the kinds and shapes which the contents declare."""
    sizes = Sizes()
    for name, (attribute, kind) in contents.items():
        demand(kind.fits(values[attribute], sizes), name)
    for view in values.get("views_", ()):
        demand(are_below(np.asarray(view.columns), values["n_features_in_"]), "views")


def demand(sound: bool, name: str) -> None:
    """Refuse the file unless what it holds under a name is sound."""
    if not sound:
        raise ModelFileError(f"the model file is damaged: unusable {name}")


# ---------------------------------------------------------------- contents of files, by kind of learner

KERNEL = stored("Kernel")
PATH = stored("Path") | None
ROWS = stored("Rows") | None
STATISTICS = stored("Statistics") | None
WHITENING = stored("Whitening") | None
# row numbers where the kernel is precomputed; None: columns of X
POINTS = feature_rows("r", "d") | whole("r") | None

TRAINING: Contents = {
    "intercept": ("intercept_", FINITE),
    "n_columns": ("n_features_in_", size("d")),
    "column_names": ("feature_names_in_", names("d") | None),
    "with_queries": ("_with_queries", FLAG),
    "rows_seen": ("_n_seen", COUNT),
    "rows_scored": ("_n_scored", COUNT),
    "queries": ("_n_queries", COUNT),
}
# Basis points come before rows, which may be the same array: it is stored once, under the name that
# comes first.
FUNCTION_OF_ONE_VIEW: Contents = {
    **TRAINING,
    "coefficients": ("coef_", floats("r")),
    "kernel": ("_kernel", KERNEL),
    "gamma": ("gamma_", NUMBER | floats("d") | None),
    "basis": ("basis_", whole("r") | None),
    "basis_points": ("basis_points_", POINTS),
    "level": ("_level", FINITE),
}
FUNCTIONS_OF_VIEWS: Contents = {
    **TRAINING,
    "views": ("views_", per_view(stored("View"))),
    "coefficients": ("coef_", per_view(floats("r"))),
    "kernels": ("_kernel", per_view(KERNEL)),
    "gamma": ("gamma_", per_view(NUMBER | None)),
    "basis": ("basis_", per_view(whole("r") | None)),
    "basis_points": ("basis_points_", per_view(POINTS)),
    "agreement": ("agreement_", NUMBER),
    "bonds": ("_bonds", later(floats("M", "M"))),
    "rows_unscored": ("_n_unscored", COUNT),
}
TUNED: Contents = {"alpha": ("alpha_", FINITE), "path": ("path_", PATH)}
# Several columns of scores have (t,) numbers and (r, t) coefficients; parts of their function are
# lists where there are several.
ONE_VIEW: Contents = {
    **FUNCTION_OF_ONE_VIEW,
    "intercept": ("intercept_", FINITE | floats("t")),
    "coefficients": ("coef_", floats("r") | floats("r", "t") | per_view(floats("r", "_"))),
    "kernel": ("_kernel", KERNEL | per_view(KERNEL)),
    "gamma": ("gamma_", NUMBER | floats("d") | None | per_view(NUMBER | floats("_") | None)),
    "basis": ("basis_", whole("r") | None | per_view(whole("r") | None)),
    "basis_points": ("basis_points_", POINTS | per_view(POINTS)),
    "alpha": ("alpha_", FINITE | floats("t")),
    "path": ("path_", PATH | several(PATH)),
    "rows": ("_rows", ROWS),
    "statistics": ("_statistics", STATISTICS),
    "whitening": ("_whitening", WHITENING | per_view(WHITENING)),
}
SEVERAL_VIEWS: Contents = {
    **FUNCTIONS_OF_VIEWS,
    **TUNED,
    "level": ("_level", FINITE),
    "sweeps": ("n_iter_", COUNT),
    "compared": ("_compared", FLAG),
    "rows": ("_rows", per_view(stored("Rows")) | None),
    "statistics": ("_statistics", per_view(stored("Statistics")) | None),
    "whitenings": ("_whitening", per_view(WHITENING) | None),
    "disagreement": ("_disagreement", floats("w", "w") | None),
    "effect": ("_effect", stored("UnscoredEffect") | None),
}
TRANSDUCTIVE: Contents = {
    **{name: entry for name, entry in ONE_VIEW.items() if name != "whitening"},
    "pull": ("pull_", NUMBER),
    "transduction": ("transduction_", floats("u")),
    "rows_unscored": ("_n_unscored", size("u")),
}
COMPONENTS: Contents = {
    **FUNCTION_OF_ONE_VIEW,
    **TUNED,
    "n_components": ("n_components_", COUNT),
    "eigenvalues": ("eigenvalues_", floats("_")),
}


def sparse_models(points: Kind) -> Kind:
    """Near-optimal models beside the fitted one."""
    views = {"atoms": per_view(whole("_")), "coefficients": per_view(floats("_"))}
    return several(entries(objective=NUMBER, points=per_view(points), **views))


PURSUIT: Contents = {
    **FUNCTION_OF_ONE_VIEW,
    "path": ("path_", PATH),
    "atoms": ("atoms_", whole("r")),
    "steps": ("steps_", whole("s")),
    "n_atoms": ("n_atoms_", size("s")),
    "names": ("_names", several(TEXT, "r")),
    "refit": ("_refit", TEXT),
    "dictionary": ("_function", function("dictionary") | None),
    "dictionary_size": ("_size", COUNT),
    "weights": ("_weights", floats("r", "s")),
    "training_loss": ("training_loss_", floats("_")),
    "combine": ("_combine", later(TEXT)),
    "others": ("_others", later(sparse_models(feature_rows("_", "d") | whole("_") | None))),
}
CO_PURSUIT: Contents = {
    **FUNCTIONS_OF_VIEWS,
    "path": ("path_", PATH),
    "n_atoms": ("n_atoms_", size("s")),
    "atoms": ("atoms_", per_view(whole("r"))),
    "steps": ("steps_", per_view(whole("s"))),
    "names": ("_names", several(TEXT)),
    "history": ("_history", floats("s", "s", "M")),
    "objective": ("objective_", floats("_")),
    "others": ("_others", sparse_models(feature_rows("_", "d") | whole("_"))),
    "combine": ("_combine", later(TEXT | floats("M"))),
    "search": ("search_", later(TEXT)),
    "compared": ("_compared", later(FLAG)),
}
GAUSSIAN_PROCESS: Contents = {
    **FUNCTION_OF_ONE_VIEW,
    "rows": ("_rows", ROWS),
    "parts": ("_parts", several(stored("GaussianPart"))),
    "amplitude": ("amplitude_", NUMBER),
    "log_evidence": ("log_evidence_", NUMBER),
    "kind": ("_kind", TEXT),
    "n_comparisons": ("_n_comparisons", COUNT),
}
PREFERENCE_PROCESS: Contents = {
    **GAUSSIAN_PROCESS,
    "habits": ("_habits", later(stored("Habits"))),
    "compared": ("_data", stored("Compared") | None),
    "whole": ("_whole", FLAG),
    "n_iter": ("n_iter_", COUNT),
    "items": ("_items", later(whole("i"))),
    "judges": ("judges_", later(several(stored("Judge")))),
}
DIFFERENCE_PROCESS: Contents = {
    **ONE_VIEW,
    **GAUSSIAN_PROCESS,
    "noise": ("noise_", NUMBER),
    "compared": ("_compared", stored("ComparedRows") | None),
}
