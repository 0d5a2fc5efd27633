"""Thousands of small fits at once, for the tables of [Tsivtsivadze2013]: one model per person,
people side by side.
"""
