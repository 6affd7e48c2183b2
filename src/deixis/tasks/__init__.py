"""What people do with photos and data: matching models, trained and scored, and pictures of phrases and boxes.

Photos, records and, later, models come in; answers and pictures go out. Imports everything below it in the house and
nothing of `annotate`, `server` or `cli`.
"""
