"""Scores that others can import: retrieval, localisation, captions and agreement.

Arrays and plain records come in, frozen results go out, each with its protocol, its tie rule and a bootstrap interval.
Needs neither torch nor the models; imports `geometry`, `tokens`, `errors` and `data` only.
"""
