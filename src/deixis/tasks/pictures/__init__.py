"""Photos with boxes, and sentences whose phrases have the colours of their boxes."""
