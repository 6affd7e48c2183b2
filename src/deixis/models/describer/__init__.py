"""Several different phrases for a region of a photo (HM-LSTM paper, Figure 6).

`description` has the phrases, and selects regions and diverse phrases.
"""
