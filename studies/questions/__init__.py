"""Questions the papers leave open, on real and made-up data: do unscored rows help, are
probabilities right, what to ask?

The draws of these studies follow from fixed seeds, and every method is fitted on the same draws.
Whatever is tuned is tuned on scored rows only.
"""
