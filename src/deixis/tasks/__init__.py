"""What people do with photos and data: matching models, trained and scored, and pictures of phrases and boxes.

Photos, records and models come in; answers and pictures go out. What serves all tasks stands here, each kind of answer
has a room of its own. Imports everything below it in the house and nothing of `annotate`, `server` or `cli`.
"""
