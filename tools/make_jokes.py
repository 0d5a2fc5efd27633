"""Draw the sample of joke ratings that ships with corank from part 1 of the Jester data (24,983
users x 100 jokes).

    python tools/make_jokes.py jester_part1.npz

The input holds `ratings`, int16, 100 times the rating, 9900 = not rated; row = user, column = joke
1 to 100.
"""

import argparse
import hashlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

SEED = 20010701
INPUT_SHA256 = "35de19c491e87fbf7e9a2026ed4070d74c7806e186a354c8a3d350db187c64f8"
NOT_RATED = 9900
N_REFERENCE = 100
USERS_A_GROUP = 100
# A user belongs to the group of how many jokes were rated: part 1 of Jester has users with 36 and
# more.
GROUPS = ((36, 49), (50, 69), (70, 99), (100, 100))
OUTPUT = Path(__file__).parents[1] / "src" / "corank" / "datasets" / "jokes" / "jokes.npz"


def draw(ratings: NDArray[np.int16], seed: int = SEED) -> dict[str, NDArray[Any]]:
    """Draw reference users, who rated every joke, and as many other users from each group, in
    random order.
    """
    rng = np.random.default_rng(seed)
    n_rated = np.count_nonzero(ratings != NOT_RATED, axis=1)
    reference = rng.choice(np.flatnonzero(n_rated == ratings.shape[1]), N_REFERENCE, replace=False)
    free = np.setdiff1d(np.arange(len(ratings)), reference)
    users = np.concatenate(
        [
            rng.choice(
                free[(n_rated[free] >= low) & (n_rated[free] <= high)], USERS_A_GROUP, replace=False
            )
            for low, high in GROUPS
        ]
    )
    users = rng.permutation(users)
    reference.sort()
    return {
        "ratings": ratings[users],
        "reference_ratings": ratings[reference],
        "users": users.astype(np.int32),
        "reference_users": reference.astype(np.int32),
    }


def main() -> None:
    """Check the input, draw the sample and write it where the loader looks for it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("input", type=Path)
    parser.add_argument("--output", type=Path, default=OUTPUT)
    arguments = parser.parse_args()
    if hashlib.sha256(arguments.input.read_bytes()).hexdigest() != INPUT_SHA256:
        parser.error(f"{arguments.input} is not the expected file (sha256 {INPUT_SHA256}).")
    with np.load(arguments.input, allow_pickle=False) as file:
        sample = draw(file["ratings"])
    np.savez_compressed(arguments.output, allow_pickle=False, **sample)


if __name__ == "__main__":
    main()
