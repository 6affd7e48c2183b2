"""Proposals by models, off by default: a coreference model proposes links and the grounder proposes boxes.

Proposals are events that name their model. Workers accept or correct them, and exports mark them.
"""
