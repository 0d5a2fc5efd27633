"""Does it help to learn from unscored rows? Studies on made-up and real data: `python -m studies.questions NAME`.

Every study draws its data from fixed seeds, fits every method on the same draws and compares test errors. Whatever is
tuned, is tuned on scored rows only.
"""
