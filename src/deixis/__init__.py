"""deixis points at pictures with words."""

__version__ = "0.1.0"
