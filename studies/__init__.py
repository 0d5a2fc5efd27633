"""Studies of corank on real and made-up data, no part of the package: `python -m studies NAME
--data DIR`.

`papers` makes the tables and figures of the five papers again, with a verdict on every published
finding; `questions` asks what the papers leave open. A study (`study.Study`) says which parts it is
computed from and what their results say together; `run` computes and keeps the parts, `write` makes
files of what comes out.
"""
