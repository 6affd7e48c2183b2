"""Photos and sentences on one plane, as a picture and as a page."""
