"""Where a project is kept: one schema for SQLite and PostgreSQL, transactions, and the cached folds of photos.

Events are only ever added. What can be derived from them has tables too, so that the next question is found quickly.
"""
