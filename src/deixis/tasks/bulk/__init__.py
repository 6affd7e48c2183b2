"""Bulk work on many machines: features, indexes and captions of more photos than one process can look at.

Photos are cut into parts; workers of a Dask cluster do the parts, and what comes back is in the order of the photos and
the same to the last bit as from one process. Only the process that was started by hand writes. May import the rest of
`tasks`; Dask is imported when it is used, and comes with ``pip install deixis[cluster]``.
"""
