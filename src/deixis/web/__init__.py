"""The web app and the HTTP API: search, grounding, captions and descriptions of the photos of an index.

Photos are named by opaque ids and sent as newly encoded JPEGs. The page is built from ``web/``.
"""
