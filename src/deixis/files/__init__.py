"""Files that are never half-written, never written by two processes at once, and never trusted.

Paths come in; whole files, whole directories and bounded reads of folders and zips come out. Knows nothing of
photos or captions and imports only `errors`.
"""
