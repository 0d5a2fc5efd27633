"""Speed and memory beside other libraries: `python -m benchmarks [NAME ...]`.

Kept light: only the processes that measure import corank and its peers.
"""
