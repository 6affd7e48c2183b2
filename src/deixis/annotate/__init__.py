"""Making grounded data: people answer small questions about photos and captions, and chains with boxes come of it.

Photos with captions come in; `events` are the truth, `state` is a fold over them by the table in `workflow`, questions
come from state. `store` keeps it all in SQLite or PostgreSQL; what comes out is `deixis.data.records` again. Imports
everything below it in the house, and neither the server nor the command.
"""
