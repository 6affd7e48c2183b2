"""What people do with photos: so far, drawing them with their phrases and boxes.

Photos, records and, later, models come in; answers and pictures go out. Imports everything below it in the house and
nothing of `annotate`, `server` or `cli`.
"""
