"""Attacks on corank, seeded and bounded: mutated model files, tables, messages, checkpoints, and
what `corank ask` takes.

Every module but `watch` has `run(rng_seed, count)`, which gives its findings, one sentence each;
the case with number i of a run with seed s is the case of a run with seed s + i. `python -m fuzz`
runs them, `fuzz/corpus` keeps inputs that once were findings, and the tests try these again.
"""
