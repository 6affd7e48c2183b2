"""Sentences into numbers and phrases: vocabulary, tags, noun-phrase mentions, trees and vectors. English only.

Captions come in as text or tokens; records and arrays go out. What was learned from text ships in ``models`` and
never saw a caption of Flickr8k's dev photos. Imports only the floors and `data`.
"""
