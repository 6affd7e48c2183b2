"""Several different phrases for a region of a photo (HM-LSTM paper, Figure 6).

`phrase_bank` has the phrases; `description` selects regions and diverse phrases.
"""
