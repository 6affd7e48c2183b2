"""Several different phrases for the regions of a photo."""
