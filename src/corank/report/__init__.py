"""Pictures of models and comparisons, and pages that show them."""

from corank.report.comparison import write_report
from corank.report.page import write_model_report
from corank.report.plots import (
    plot_atoms,
    plot_comparison,
    plot_judges,
    plot_learning_curve,
    plot_path,
    plot_posterior,
    plot_reliability,
    plot_views,
)

__all__ = [
    "plot_atoms",
    "plot_comparison",
    "plot_judges",
    "plot_learning_curve",
    "plot_path",
    "plot_posterior",
    "plot_reliability",
    "plot_views",
    "write_model_report",
    "write_report",
]
