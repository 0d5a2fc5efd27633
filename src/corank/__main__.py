"""`python -m corank` is the command `corank`."""

from corank.cli import main

main()
