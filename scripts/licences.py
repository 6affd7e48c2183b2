"""A page with the licence of every package that deixis can come with: python scripts/licences.py [--out FILE].

Ends with 1 where a package that users install is under a licence that would bind all of deixis (GPL, AGPL, SSPL), or
states none.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

from dependencies import TESTS, Dependency, dependencies, missing

_STRONG = re.compile(r"\bA?GPL|GNU (?:Affero )?General Public|SSPL|Server Side Public", re.IGNORECASE)
_WEAK = re.compile(r"LGPL|Lesser General|MPL|Mozilla", re.IGNORECASE)

_HEAD = """# Licences of what deixis comes with

Made by `make licences` from the metadata of the installed packages. deixis itself is Apache-2.0; the data files of
METEOR and the weights state their own terms beside them.

- {permissive} packages under permissive licences
- {weak} under licences that ask to share changes to the package itself (LGPL, MPL): used as they are published
- none that users install is under a licence that would bind programs around it (GPL, AGPL)

Packages for tests only are listed too; they are not needed to use deixis, and nothing of them is shipped.
"""


def binds_everything(licence: str) -> bool:
    """Whether a licence reaches beyond the package: GPL and its like, unless there is a choice."""
    choices = re.split(r"\bOR\b", licence)
    return all(bool(_STRONG.search(re.sub(r"LGPL\S*", "", choice))) for choice in choices)


def troubles(found: list[Dependency]) -> list[str]:
    """What must not be shipped."""
    shipped = [each for each in found if each.use != TESTS]
    bound = [f"{each.name}: {each.licence}" for each in shipped if binds_everything(each.licence)]
    carried = [
        f"{each.name}: its wheel carries {each.also}" for each in shipped if binds_everything(each.also or "MIT")
    ]
    silent = [f"{each.name}: states no licence" for each in shipped if each.licence == "not stated"]
    return bound + carried + silent


def page(found: list[Dependency], absent: list[str]) -> str:
    """The report in Markdown."""
    weak = [each for each in found if _WEAK.search(f"{each.licence} {each.also}") and each.use != TESTS]
    shipped = [each for each in found if each.use != TESTS]
    lines = [_HEAD.format(permissive=len(shipped) - len(weak), weak=len(weak))]
    lines += ["| package | version | licence | in its wheel | use | asked for by |", "|---|---|---|---|---|---|"]
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
    if wrong := troubles(found):
        sys.exit("\n".join(wrong))


if __name__ == "__main__":
    main()
