"""The names of the harnesses, without importing the code that they test."""

from __future__ import annotations

import re
from pathlib import Path

_SOURCE = Path(__file__).with_name("harnesses.py").read_text(encoding="utf-8")
_NAMES = re.findall(r'^def (\w+)\(data: bytes, folder: Path\)|^    "([\w-]+)": \(', _SOURCE, re.MULTILINE)
NAMES = sorted(function.replace("_", "-") or entry for function, entry in _NAMES)
