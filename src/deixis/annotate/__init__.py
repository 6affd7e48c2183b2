"""The annotation workbench: workers answer small questions about captioned photos, which give chains and boxes.

The paper's tasks are the transition table in `workflow`. Everything that people do is an event (`events`); the state of
a photo is derived from its events (`state`), and the open questions from its state (`queue`). A judgement is one
transaction (`judgements`, `transactions`) on SQLite or PostgreSQL (`database`, `schema`). `quality` checks the workers,
`review` holds decisions, `help` the proposals of models, and `web` the server. `export` makes a data set again.
"""
