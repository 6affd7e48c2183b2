"""Photos, captions, mentions, chains and boxes, in and out.

Other people's files come in; frozen records and a data set directory in columnar form go out. Imports only the
floors: `geometry`, `files`, `tokens` and `errors`.
"""
