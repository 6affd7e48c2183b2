"""Import, open and count Flickr30k Entities: time, memory, and the ratio to only reading the files.

Run with DEIXIS_DATA set: python benchmarks/data.py
Limits on two cores: import in 60 s and 1.5 GB, open in 1 s, statistics in 3 s. The baseline is the minimum that any
importer must do: unzip every file and parse every XML with the standard library.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

BARE = """
import sys, zipfile, xml.etree.ElementTree as ET
with zipfile.ZipFile(sys.argv[1]) as archive:
    for name in archive.namelist():
        data = archive.read(name)
        ET.fromstring(data) if name.endswith(".xml") else data.decode().split("\\n")
"""


def run(*command: str | Path) -> tuple[float, float]:
    """Run a process; return its wall-clock seconds and its peak resident memory in MB."""
    begin = time.perf_counter()
    process = subprocess.Popen([sys.executable, *map(str, command)], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    assert status == 0, command
    return time.perf_counter() - begin, usage.ru_maxrss / 1024


def main() -> None:
    if "DEIXIS_DATA" not in os.environ:
        sys.exit("set DEIXIS_DATA to a folder that contains flickr30k_entities/")
    release = Path(os.environ["DEIXIS_DATA"]) / "flickr30k_entities"
    deixis = ("-m", "deixis.cli.main", "data")
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data"
        bare, _ = run("-c", BARE, release / "annotations.zip")
        imported, memory = run(*deixis, "import", "--entities", release, "--out", data)
        opened, _ = run("-c", f"from deixis.data.dataset import Dataset; Dataset({str(data)!r}).photos[0]")
        counted, _ = run(*deixis, "stats", data, "--json")
        loaded, _ = run("-c", "import deixis.data.dataset")
    rows = [
        ("import 30,068 annotated images", imported, 60, f"{memory:,.0f} MB; {imported / bare:.1f} × bare reading"),
        ("open and read a photo", opened, 1, f"of which {loaded:.2f} s for Python imports"),
        ("statistics", counted, 3, ""),
    ]
    for what, seconds, limit, more in rows:
        print(f"{what:32} {seconds:6.2f} s  (limit {limit} s)  {more}")
    if memory > 1500 or any(seconds > limit for _, seconds, limit, _ in rows):
        sys.exit("over a limit")


if __name__ == "__main__":
    main()
