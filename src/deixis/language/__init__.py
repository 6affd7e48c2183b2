"""Sentences into phrases and numbers: `Sentence`, tags, noun phrases, trees, vocabulary and vectors. English only.

Captions come in as text or tokens; records and arrays go out. What was learned from text ships in ``models`` and
never saw a caption of Flickr8k's dev photos. Imports only the floors and `data`.
"""
