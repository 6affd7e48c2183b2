"""The command `deixis`: one module a verb, thin over the rooms below.

Words typed by people come in; one clear answer goes out, as text or as JSON. Nothing imports this room, and a verb
imports what it needs only when it runs, so that ``--help`` is quick.
"""
