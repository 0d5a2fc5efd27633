"""Numbers in, numbers out: from a problem and a basis to coefficients and held-out errors."""
