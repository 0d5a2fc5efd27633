"""Pictures of models and of how well they do."""

from corank.report.plots import plot_posterior, plot_reliability

__all__ = ["plot_posterior", "plot_reliability"]
