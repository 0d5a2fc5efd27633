"""The fuzzer of messages, states and checkpoints: nothing is found today, and what is wrong would
be.
"""

import numpy as np
import pytest

from fuzz import messages

pytestmark = pytest.mark.usefixtures("one_blas_thread")


def test_changed_messages_states_and_checkpoints_end_in_a_sentence_or_finite_numbers():
    assert messages.run(seed=0, count=64) == []


@pytest.mark.parametrize(("seed", "number"), [(1, 10857)])
def test_what_was_found_once_stays_mended(seed, number):
    assert messages.case(seed, number) is None


def test_a_case_can_be_repeated():
    content = messages.encoded(messages.Message("stop", {"reason": "r", "row": None}))
    first, again = (
        messages.changed_bytes(np.random.default_rng([0, 5]), content) for _ in range(2)
    )
    assert first == again


def test_the_fuzzer_finds_fields_of_the_wrong_type_that_are_let_through(monkeypatch):
    monkeypatch.setattr("corank_federated.messages._is", lambda value, wanted: True)
    findings = messages.run(seed=0, count=64)
    assert any("fuzz.messages.case(0, " in finding for finding in findings)
