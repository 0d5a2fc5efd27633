"""Studies of corank on real and made-up data: `python -m studies NAME --data DIR`. No part of the package."""
