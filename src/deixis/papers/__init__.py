"""The tables of the four papers: published figures, our figures, and tests of the papers' claims.

`tables` reads published figures and recipes from TOML files, `datasets` identifies a data set, `training` trains and
stores the models of a table, `scores` scores them with `deixis.models.evaluation`, and `runner` computes a whole table.
"""
