"""Public names of `corank_federated`, the distribution corank-federated, for programs that import
them from here.
"""

try:
    from corank_federated import *
except ModuleNotFoundError as error:
    if error.name != "corank_federated":
        raise
    raise ModuleNotFoundError(
        "corank.federated is a distribution of its own: pip install corank-federated",
        name=error.name,
    ) from None
