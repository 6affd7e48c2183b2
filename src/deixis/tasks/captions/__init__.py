"""Sentences for photos: written, put in order by like photos, scored and shown."""
