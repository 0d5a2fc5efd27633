"""Errors about arguments: one sentence in Python, which a command line can say of its option."""

import pickle

from corank.cli.console import sentence
from corank.core.messages import ArgumentError


def test_an_error_names_its_argument():
    error = ArgumentError("scored_share", " must be above 0 and at most 1, got 2.")
    assert isinstance(error, ValueError)
    assert str(error) == "scored_share must be above 0 and at most 1, got 2."
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_a_command_says_the_option_in_its_place():
    error = ArgumentError("scored_share", " must be above 0 and at most 1, got 2.")
    assert sentence(error) == "--scored-share must be above 0 and at most 1, got 2."
    error = ArgumentError("measure", "='x' is unknown; give one of ndcg, rmse.")
    assert sentence(error) == "--measure 'x' is unknown; give one of ndcg, rmse."
    error = ArgumentError("methods", ": 'a' has no RMSE; judge by measure='ndcg'.")
    assert sentence(error) == "--methods: 'a' has no RMSE; judge by --measure 'ndcg'."
