"""The papers' tables, ours beside the published figures.

Figures and recipes are lists; models are trained and scored by `tasks` and `evaluation`, and claims are judged by
paired intervals. A data set directory comes in, a measured table goes out. Imports everything below it and nothing of
`cli`.
"""
