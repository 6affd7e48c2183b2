"""Every module, function, class and method of the package has a caller in the package, or a reason to be without."""

from __future__ import annotations

import ast
import itertools
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src"
REGISTERED = re.compile(r"(app|router|routes|\w+_app|\w+_routes|field_validator|model_validator)\b")
"""Decorators of commands, routes and validators."""

REASONS = {
    "deixis.annotate.client.Client.next_question": "public API",
    "deixis.annotate.mturk.hire": "part of the interface of Workforce",
    "deixis.models.calibrator.LogisticCalibrator.cross_fit": "evaluates every fit; called by scripts/fitting.py",
    "deixis.models.pipeline.Pipeline.from_pretrained": "public API",
    "deixis.models.pipeline.Pipeline.save_pretrained": "public API",
    "deixis.language.sentence.Phrase.is_node": "public API",
    "deixis.storage.remote.RemotePath.is_absolute": "part of the interface of Path",
    "deixis.vision.encoders.saved.save_network": "writes what the package reads; called by scripts/export_encoder.py",
    "deixis.vision.proposals.head.save_head": "writes what the package reads; called by scripts/export_encoder.py",
    "deixis.web.rates.RateLimiter.reset": "for the tests of a server that runs on",
}
"""Names without a caller in the package, and why they are in it."""

OVERRIDES = {
    "forward": "torch",
    "redirect_request": "urllib",
    "dump": "psycopg",
    "symbolic": "torch.onnx",
    "file_response": "starlette",
    "format_commands": "click",
    "get_response": "starlette",
    "handle_exit": "uvicorn",
    "connection_made": "uvicorn",
    "connection_lost": "uvicorn",
    "data_received": "uvicorn",
    "on_response_complete": "uvicorn",
    "pause_writing": "uvicorn",
    "resume_writing": "uvicorn",
    "timeout_keep_alive_handler": "uvicorn",
}
"""Methods that another package calls."""

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@cache
def modules() -> dict[str, ast.Module]:
    """The modules of the package by name."""
    return {
        ".".join(file.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__"): ast.parse(
            file.read_text(encoding="utf-8")
        )
        for file in sorted(SOURCE.rglob("*.py"))
    }


@cache
def nodes() -> dict[str, list[ast.AST]]:
    """The nodes of each module, without the texts of docstrings."""
    found = {name: list(ast.walk(tree)) for name, tree in modules().items()}
    for node in itertools.chain.from_iterable(found.values()):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            node.value.value = None
    return found


@cache
def strings() -> frozenset[str]:
    """Words of short strings: names that are imported lazily, and methods that are looked up by name."""
    texts = (
        node.value
        for node in itertools.chain.from_iterable(nodes().values())
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) < 120
    )
    return frozenset(word for text in texts for word in re.findall(r"\w+", text))


@cache
def imported() -> frozenset[str]:
    """Full names of modules and their members that some module imports, or reads from a module that it imports."""
    found: set[str] = set()
    for inside in nodes().values():
        aliases: dict[str, str] = {}
        for node in inside:
            if isinstance(node, ast.Import):
                aliases |= {alias.asname or alias.name: alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                aliases |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
                found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        found |= set(aliases.values())
        for node in inside:
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in aliases:
                found.add(f"{aliases[node.value.id]}.{node.attr}")
    return frozenset(found)


@cache
def attributes() -> Counter[str]:
    every = itertools.chain.from_iterable(nodes().values())
    return Counter(node.attr for node in every if isinstance(node, ast.Attribute))


@cache
def interfaces() -> frozenset[tuple[str, str]]:
    """Packages, and functions that several of their modules define: readers, writers and encoders are alike."""
    names = Counter(
        (module.rpartition(".")[0], node.name)
        for module, tree in modules().items()
        for node in tree.body
        if isinstance(node, Definition) and attributes()[node.name]
    )
    return frozenset(each for each, count in names.items() if count > 1)


def is_registered(node: Definition) -> bool:
    return any(REGISTERED.match(ast.unparse(decorator)) for decorator in node.decorator_list)


@cache
def names_in(node: ast.stmt) -> frozenset[str]:
    return frozenset(each.id for each in ast.walk(node) if isinstance(each, ast.Name))


def read_elsewhere(tree: ast.Module, definition: Definition) -> bool:
    """Whether a module reads a name outside its definition."""
    return any(definition.name in names_in(other) for other in tree.body if other is not definition)


def unused_names() -> Iterator[str]:
    for module, tree in modules().items():
        package, _, last = module.rpartition(".")
        is_package = any(other.startswith(f"{module}.") for other in modules())
        if module not in imported() and last not in strings() and not is_package:
            yield module
        for node in tree.body:
            if not isinstance(node, Definition) or is_registered(node):
                continue
            full = f"{module}.{node.name}"
            named = node.name.startswith("__") or node.name in strings() or (package, node.name) in interfaces()
            if full not in imported() and not named and not read_elsewhere(tree, node):
                yield full
            for method in node.body if isinstance(node, ast.ClassDef) else ():
                if not isinstance(method, Definition) or method.name.startswith("__") or is_registered(method):
                    continue
                if method.name not in strings() and method.name not in OVERRIDES:
                    own = sum(isinstance(each, ast.Attribute) and each.attr == method.name for each in ast.walk(method))
                    if attributes()[method.name] <= own:
                        yield f"{full}.{method.name}"


def test_every_name_has_a_caller_in_the_package_or_a_reason() -> None:
    found = set(unused_names())
    assert sorted(found - REASONS.keys()) == [], "only tests, scripts or benchmarks use these names: move them there"
    assert sorted(REASONS.keys() - found) == [], "these names are gone or have a caller: remove the reason"
