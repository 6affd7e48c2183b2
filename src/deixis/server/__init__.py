"""The web app and the HTTP API: a person's photos in a browser.

An index of photos comes in (`deixis.tasks.search.searching`), an ASGI application goes out. Photos are named by opaque
ids and leave only as JPEGs encoded anew. May import everything but `cli`; what the page is made of is in ``web/``.
"""
