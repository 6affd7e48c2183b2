"""Files on disk: atomic writes, locks, safe archives, remote paths, artifacts and progress callbacks.

Nothing here knows about photos or captions. Imports only `deixis.errors` and `deixis.arrays`.
"""
