"""The annotation workbench over HTTP: people log in, answer one question at a time, review, and look after a project.

A project comes in (`deixis.annotate`), an ASGI application goes out. The server computes no state of its own: it checks
who asks, passes on what they do, and shows what the project says. The pages are in ``web/``.
"""
