"""The page of the papers: claims grouped from their cases, items whose tests are there."""

import tomllib

import pytest
from tools.make_findings import (
    ITEMS,
    PAGE,
    ROOT,
    _left_out,
    _says_whose,
    check_items,
    check_test,
    claim_sections,
    evidence_of,
    item_sections,
    page,
)

from studies.papers import PAPERS


def case(verdict, mean=-0.01, kind="own", **more):
    return {
        "source": "Brefeld2006 fig. 1",
        "claim": "It errs less.",
        "verdict": verdict,
        "evidence": "difference, because.",
        "case": "here",
        "kind": kind,
        "interval": [mean, mean - 0.001, mean + 0.001],
        **more,
    }


def study(*cases):
    return {"study": "made", "sources": ["Brefeld2006 fig. 1"], "findings": list(cases)}


def test_every_item_of_the_papers_is_there_and_its_test_too():
    items = tomllib.loads(ITEMS.read_text(encoding="utf-8"))["items"]
    check_items(items, ROOT)
    assert len(items) == 69
    assert {item["paper"] for item in items} == {*PAPERS, "several"}
    text = "\n".join(item_sections(items, PAPERS))
    for item in items:
        assert f"| {item['number']} | {item['words'].replace('|', chr(92) + '|')} |" in text


def test_the_page_is_what_the_command_writes():
    written = PAGE.read_text(encoding="utf-8")
    assert page(written) == written


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"number": 3}, "numbered 1 to 2, each once"),
        ({"test": "tests/no_such_file.py::test_it"}, "there is no file tests/no_such_file.py"),
        ({"test": "tests/tools/test_findings.py::test_none"}, "has no test test_none"),
        ({"call": ""}, "item 2 works, but names no call"),
        ({"status": "declined"}, "item 2 declined, but names no reason"),
        ({"status": "done"}, "item 2 is 'done'"),
    ],
)
def test_an_item_that_promises_too_much_is_refused(change, message):
    test = "tests/tools/test_findings.py::test_every_item_of_the_papers_is_there_and_its_test_too"
    item = {"number": 1, "words": "x", "status": "works", "call": "fit()", "test": test}
    check_test(test, ROOT)
    with pytest.raises(ValueError, match=message):
        check_items([item, {**item, "number": 2, **change}], ROOT)


def test_cases_of_a_claim_make_one_row():
    claims = claim_sections(
        [study(case("holds"), case("does not hold", 0.02), case("holds", kind="elsewhere"))],
        {"Brefeld2006": "coRLSR"},
    )
    text = "\n".join(claims)
    assert text.count("| It errs less. |") == 2
    assert "| It errs less. | the paper's | **holds partly** | 2 cases: 1 hold, 1 do not;" in text
    assert "| It errs less. | elsewhere | **holds** | here: difference, because. |" in text
    assert "*On the paper's own ground*: Of 1 claim, 1 holds partly." in text


def test_what_the_papers_do_not_claim_counts_for_nothing():
    text = "\n".join(claim_sections([study(case("holds", kind="not claimed"))], PAPERS))
    assert "No claim was looked at" in text
    assert "One further row is no claim of the papers" in text
    assert "| not claimed | **holds** |" in text


def test_every_number_comes_with_its_interval():
    cases = [case("holds", mean) for mean in (-0.04, -0.03, -0.02, -0.01)]
    assert evidence_of(cases) == (
        "4 cases: 4 hold; -0.0400 (-0.0410 to -0.0390) here to -0.0100 (-0.0110 to -0.0090) here."
    )


def test_results_of_before_are_left_out_and_named():
    old = case("holds")
    del old["kind"]
    assert _says_whose(study(case("holds")))
    assert not _says_whose(study(case("holds"), old))
    told = _left_out([study(old) | {"seconds_of_computing": 120.0}])[0]
    assert told.startswith("Not in these tables until they are run again")
    assert told.endswith(": [made](made.md) (2 min of computing).")
    assert _left_out([]) == []
