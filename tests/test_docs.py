"""The documentation: links lead somewhere, and the site can be built."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer

from deixis.cli.main import make_app
from deixis.models.registry import get_spec

ROOT = Path(__file__).parents[1]
PAGES = sorted(
    page
    for found in (ROOT.glob("*.md"), *((ROOT / folder).rglob("*.md") for folder in ("docs", "benchmarks", "src")))
    for page in found
)
_PAGES_OF_NOW = [page for page in PAGES if page.name != "CHANGELOG.md"]
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
_GENERATED = {ROOT / "docs" / "reference" / "commands.md"}


@cache
def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub and MyST make them."""
    headings = re.findall(r"^#+\s+(.*)$", _FENCE.sub("", page.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def test_every_relative_link_leads_somewhere() -> None:
    assert [f"{page.relative_to(ROOT)}: {link}" for page in PAGES for link in broken_links(page)] == []


def broken_links(page: Path) -> Iterator[str]:
    for link in _LINK.findall(_FENCE.sub("", page.read_text(encoding="utf-8"))):
        if re.match(r"[a-z]+:", link):
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        if target in _GENERATED:
            continue
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors(target)):
            yield link


def test_the_site_builds_without_warnings(tmp_path: Path) -> None:
    pytest.importorskip("sphinx", reason="sphinx is not installed: no site to build")
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", str(ROOT / "docs"), str(tmp_path / "site")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "site" / "reference" / "commands.html").is_file()


def test_every_part_of_the_papers_names_modules_and_tests_that_exist() -> None:
    page = (ROOT / "docs" / "papers.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([ETMH]\d+) \|(.*)\|$", page, re.MULTILINE)
    counts = {"E": 14, "T": 13, "M": 9, "H": 11}
    expected = [f"{paper}{number}" for paper, count in counts.items() for number in range(1, count + 1)]
    assert [part for part, _ in rows] == expected

    missing = []
    for part, row in rows:
        _, modules, commands, tests = (re.findall(r"`([^`]+)`", cell) for cell in re.split(r"(?<!\\)\|", row))
        assert all([modules, commands, tests]), part
        paths = [Path("src", "deixis", *module.split(".")) for module in modules]
        missing += [f"{part}: {path}" for path in paths if not any(map(Path.is_file, _sources(path)))]
        missing += [f"{part}: {test}" for test in tests if not (ROOT / test).exists()]
    assert missing == []


def _sources(module: Path) -> list[Path]:
    return [ROOT / module.with_suffix(".py"), ROOT / module / "__init__.py"]


def test_the_page_of_the_architecture_names_files_and_functions_that_exist() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    table = page.partition("## Where is …?")[2].partition("\n## ")[0]
    found = re.findall(r"`([a-z_/0-9]+\.(?:py|toml))`(?:: `(\w+)`)?", table)
    assert len(found) > 10
    for path, name in found:
        source = (ROOT / "src" / "deixis" / path).read_text(encoding="utf-8")
        assert re.search(rf"^(def |class |){name}\b", source, re.MULTILINE), (path, name)


def test_every_module_that_a_page_or_a_docstring_names_exists() -> None:
    package = ROOT / "src" / "deixis"
    packages = "|".join(folder.name for folder in package.iterdir() if (folder / "__init__.py").is_file())
    dotted = re.compile(rf"`(?:deixis\.)?((?:{packages})(?:\.[a-z_]\w*)+)(?<!\.py)[.`(]")
    entry_points = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    wrong, seen = [], 0
    for page in [*_PAGES_OF_NOW, *package.rglob("*.py")]:
        found = dotted.findall(page.read_text(encoding="utf-8"))
        seen += len(found)
        missing = [name for name in found if f'"deixis.{name}"' not in entry_points and not _is_defined(package, name)]
        wrong += [f"{page.relative_to(ROOT)}: {name}" for name in missing]
    assert wrong == []
    assert seen > 200


@cache
def _is_defined(package: Path, name: str) -> bool:
    """Return whether a module exists, or the module before the last dot has the name."""
    module, _, last = name.rpartition(".")
    if any(map(Path.is_file, _sources(package.joinpath(*name.split("."))))):
        return True
    sources = [
        path.read_text(encoding="utf-8") for path in _sources(package.joinpath(*module.split("."))) if path.is_file()
    ]
    return any(re.search(rf"\b{last}\b", source) for source in sources)


def test_every_python_file_that_a_page_names_exists_with_the_name_beside_it() -> None:
    folders = (ROOT / folder for folder in ("src", "tests", "scripts", "benchmarks"))
    sources = [*ROOT.glob("*.py"), *(path for folder in folders for path in folder.rglob("*.py"))]
    wrong, seen = [], 0
    for page in _PAGES_OF_NOW:
        for path, name in re.findall(r"`([\w/]+\.py)`(?:: `(\w+))?", page.read_text(encoding="utf-8")):
            seen += 1
            texts = [source.read_text(encoding="utf-8") for source in sources if source.as_posix().endswith(f"/{path}")]
            if not any(re.search(rf"\b{name}\b", text) for text in texts):
                wrong.append(f"{page.relative_to(ROOT)}: {path} {name}")
    assert wrong == []
    assert seen > 200


def test_every_command_that_a_page_shows_exists_with_these_options() -> None:
    options = dict(command_options(typer.main.get_command(make_app())))
    wrong, seen = [], 0
    for page in PAGES:
        text = re.sub(r"\\\n\s*", " ", page.read_text(encoding="utf-8"))
        for shown in re.findall(r"(?:^|(?<=[`(\s]))deixis [a-z-]+[^`#\n]*", text, re.MULTILINE):
            words = shown.split()
            known = next((options[name] for n in (3, 2) if (name := " ".join(words[:n])) in options), None)
            if known is not None:
                seen += 1
                unknown = set(re.findall(r"(?<=\s)--[a-z][a-z-]*", shown)) - known
                wrong += [f"{page.relative_to(ROOT)}: {shown}"] if unknown else []
    assert wrong == []
    assert seen > 400


def command_options(command: Any, name: str = "deixis") -> Iterator[tuple[str, set[str]]]:
    """Yield each command with its options, and each group with those of all its commands."""
    own = {option for each in command.params for option in each.opts + each.secondary_opts} | {"--help"}
    for subname, subcommand in getattr(command, "commands", {}).items():
        for found, options in command_options(subcommand, f"{name} {subname}"):
            own |= options
            yield found, options
    yield name, own


@pytest.mark.parametrize(("model", "complete"), [("cca", "MatchingDataSettings"), ("grounder", "GrounderSettings")])
def test_a_table_of_settings_has_all_of_them_with_their_defaults(model: str, complete: str) -> None:
    page = (ROOT / "docs" / "reference" / "models" / f"{model}.md").read_text(encoding="utf-8")
    table = page.partition("| setting | default | meaning |\n|---|---|---|\n")[2].partition("\n\n")[0]
    listed: dict[str, str] = {}
    for row in table.splitlines():
        names, defaults = (cell.replace("`", "").split(", ") for cell in row.split("|")[1:3])
        listed |= dict(zip((name.strip() for name in names), map(str.strip, defaults), strict=True))
    settings = get_spec(model).defaults
    values = {name: str(value).removesuffix(".0") for name, value in settings.to_json().items()}
    assert listed == {name: values[name].lower() or "–" for name in listed}
    assert {field for part in settings.parts if type(part).__name__ == complete for field in vars(part)} <= set(listed)
