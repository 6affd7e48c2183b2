"""Write a page with the licences of all dependencies: python scripts/licences.py [--out FILE].

Exits with 1 if a package that users install has a strong copyleft licence (GPL, AGPL, SSPL) or states none.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

from dependencies import DEVELOPMENT, Dependency, dependencies, missing

_STRONG = re.compile(r"\bA?GPL|GNU (?:Affero )?General Public|SSPL|Server Side Public", re.IGNORECASE)
_WEAK = re.compile(r"LGPL|Lesser General|MPL|Mozilla", re.IGNORECASE)

SHIPPED = (
    ("code", "Apache-2.0", "LICENSE"),
    (
        "weights: `vision/models`, `models/shipped`, `annotate/help/shipped`, `language/models`",
        "LicenseRef-deixis-weights",
        "LICENSES/LicenseRef-deixis-weights.txt",
    ),
    (
        "sample photos: `data/samples/images`",
        "CC0-1.0, CC-BY-2.0, CC-BY-4.0, LicenseRef-public-domain",
        "src/deixis/data/samples/README.md",
    ),
    ("their captions and boxes: `data/samples/entities`", "CC0-1.0", "src/deixis/data/samples/README.md"),
    ("METEOR's words: `language/data/meteor-*`", "LGPL-2.1-only", "src/deixis/language/data/COPYING.LGPL-2.1"),
    ("WordNet's words: `language/data/wordnet-*`", "LicenseRef-WordNet", "src/deixis/language/data/COPYING.WORDNET"),
    ("fonts of pictures: `pictures/fonts`", "Bitstream-Vera", "src/deixis/pictures/fonts/COPYING.DejaVu"),
    ("the web app: `web/static`", "Apache-2.0, MIT, BSD-3-Clause, ISC, OFL-1.1", "`licences.txt` beside it"),
)
"""Files in `src/deixis`, their licences (SPDX), and where the text is."""

_HEAD = """# Licences

## In the package
The code of deixis is Apache-2.0. **The weights are not**: they were trained on photos that may be used for
non-commercial research and education only, and the same holds for them. `deixis models` and the `README.md` beside each
file of weights name the data.

| files in `src/deixis` | licence (SPDX) | text |
|---|---|---|
{shipped}

The metadata of the wheel has the same licences as one SPDX expression, and their texts.

## Dependencies
Made by `make licences` from the metadata of the installed packages.

- {permissive} packages under permissive licences
- {weak} under licences that ask to share changes to the package itself (LGPL, MPL): used as they are published
- none that users install is under a licence that would bind programs around it (GPL, AGPL)

Packages for development only (tests, documentation) are listed too; they are not needed to use deixis and not shipped.
"""


def is_strong_copyleft(licence: str) -> bool:
    """Return whether a licence is strong copyleft, such as GPL, without an alternative."""
    choices = re.split(r"\bOR\b", licence)
    return all(bool(_STRONG.search(re.sub(r"LGPL\S*", "", choice))) for choice in choices)


def find_problems(found: list[Dependency]) -> list[str]:
    """Return the problems of packages that users install."""
    shipped = [each for each in found if each.use != DEVELOPMENT]
    copyleft = [f"{each.name}: {each.licence}" for each in shipped if is_strong_copyleft(each.licence)]
    bundled = [
        f"{each.name}: its wheel contains {each.also}" for each in shipped if is_strong_copyleft(each.also or "MIT")
    ]
    unstated = [f"{each.name}: states no licence" for each in shipped if each.licence == "not stated"]
    return copyleft + bundled + unstated


def page(found: list[Dependency], absent: list[str]) -> str:
    """Return the report in Markdown."""
    weak = [each for each in found if _WEAK.search(f"{each.licence} {each.also}") and each.use != DEVELOPMENT]
    shipped = [each for each in found if each.use != DEVELOPMENT]
    own = "\n".join(f"| {files} | {licence} | {text} |" for files, licence, text in SHIPPED)
    lines = [_HEAD.format(shipped=own, permissive=len(shipped) - len(weak), weak=len(weak))]
    lines += ["| package | version | licence | in its wheel | use | required by |", "|---|---|---|---|---|---|"]
    for each in found:
        by = ", ".join(each.needed_by[:3]) + (" …" if len(each.needed_by) > 3 else "")
        lines.append(f"| {each.name} | {each.version} | {each.licence} | {each.also} | {each.use} | {by} |")
    if absent:
        lines += ["", f"Not installed where this was made, so not in the table: {', '.join(absent)}."]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    out = parser.parse_args().out
    found = dependencies()
    text = page(found, missing())
    if out:
        out.write_text(text, encoding="utf-8")
    else:
        print(text, end="")
    if problems := find_problems(found):
        sys.exit("\n".join(problems))


if __name__ == "__main__":
    main()
