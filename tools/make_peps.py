"""Make the table of Python Enhancement Proposals that ships with corank.

    python tools/make_peps.py FOLDER

The folder holds `peps.parquet` (one row per proposal, with its abstract) and `cites.parquet` (who
cites whom). Abstracts become word counts: words of two letters or more that occur in at least two
of them. Numbers from 9000 on are tests of the program that makes the proposals' web pages, and are
left out.
"""

import argparse
import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

WORD = re.compile(r"[^\W\d_]\w+")
FIRST_TEST = 9000
COUNTS = ("authors", "words", "code_blocks", "sections")
OUTPUT = Path(__file__).parents[1] / "src" / "corank" / "datasets" / "peps" / "peps.npz"


def word_counts(texts: list[str]) -> dict[str, NDArray[Any]]:
    """Words in alphabetical order, and the counts of each text as the arrays of a CSR matrix."""
    counts = [Counter(WORD.findall(text.lower())) for text in texts]
    n_texts = Counter(word for row in counts for word in row)
    vocabulary = sorted(word for word, number in n_texts.items() if number > 1)
    numbers = {word: at for at, word in enumerate(vocabulary)}
    rows = [
        sorted((numbers[word], count) for word, count in row.items() if word in numbers)
        for row in counts
    ]
    return {
        "vocabulary": np.array(vocabulary),
        "row_ends": np.cumsum([0, *map(len, rows)]).astype(np.int32),
        "word_numbers": np.array([word for row in rows for word, _ in row], dtype=np.int16),
        "word_counts": np.array([count for row in rows for _, count in row], dtype=np.uint8),
    }


def main() -> None:
    """Read the tables and write what the loader looks for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--output", type=Path, default=OUTPUT)
    arguments = parser.parse_args()
    table, cites = (
        pq.read_table(arguments.folder / f"{name}.parquet") for name in ("peps", "cites")
    )
    table = table.filter(pc.field("pep") < FIRST_TEST)
    cites = cites.filter((pc.field("pep") < FIRST_TEST) & (pc.field("cites") < FIRST_TEST))
    arrays = {name: np.array(table[name].to_pylist()) for name in ("title", "type", "topic")}
    for mark in ("\\", "``"):  # of reStructuredText
        arrays["title"] = np.strings.replace(arrays["title"], mark, "")
    arrays |= {name: table[name].to_numpy().astype(np.int32) for name in ("pep", *COUNTS)}
    arrays["created"] = table["created"].cast(pa.int32()).to_numpy()  # days since 1970
    arrays["links"] = np.column_stack([cites["pep"].to_numpy(), cites["cites"].to_numpy()]).astype(
        np.int16
    )
    arrays |= word_counts(table["abstract"].to_pylist())
    np.savez_compressed(arguments.output, allow_pickle=False, **arrays)


if __name__ == "__main__":
    main()
