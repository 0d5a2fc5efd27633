"""Arrays, losses, kernels and bases: numbers in, numbers out, with NumPy, SciPy and the array
libraries of users alone.
"""
