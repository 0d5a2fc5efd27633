"""The studies run, in one quick representative; their own tests are in studies/tests (`make
test-studies`).
"""

import json

from studies.__main__ import main


def test_a_study_runs_from_end_to_end(tmp_path, capsys):
    code = main(
        [
            "evidence",
            "--quick",
            "--jobs",
            "1",
            "--out",
            str(tmp_path / "out"),
            "--keep",
            str(tmp_path / "keep"),
        ]
    )
    assert code == 0
    assert "Log evidence" in capsys.readouterr().out
    found = json.loads((tmp_path / "out" / "evidence.json").read_text())
    for result in found["results"].values():
        assert max(result["starts"]) < result["learner"] + 0.01
