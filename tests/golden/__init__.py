"""Fits whose results are kept, so that a change of code that should not change results is seen not
to.
"""
