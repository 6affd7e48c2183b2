"""Reading files never runs code: the package uses no pickle under any name, and no eval."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import deixis

PACKAGE = Path(deixis.__file__).parent
MODULES = {"pickle", "cPickle", "_pickle", "cloudpickle", "dill", "joblib", "marshal", "shelve", "jsonpickle"}


def find_violations(source: str, file: str = "file") -> list[str]:
    return list(_check_tree(ast.parse(source), file))


def _check_tree(tree: ast.AST, file: str) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for name in node.names:
                if name.name.partition(".")[0] in MODULES:
                    yield f"{file}:{node.lineno}: imports {name.name}"
        elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in MODULES:
            yield f"{file}:{node.lineno}: imports from {node.module}"
        elif isinstance(node, ast.Call):
            yield from _check_call(node, file)


def _check_call(call: ast.Call, file: str) -> Iterator[str]:
    called = ast.unparse(call.func)
    arguments = {keyword.arg: ast.unparse(keyword.value) for keyword in call.keywords}
    where = f"{file}:{call.lineno}: {called}"
    if arguments.get("allow_pickle", "False") != "False":
        yield f"{where} allows pickles"
    if called in ("torch.load", "torch.jit.load") and arguments.get("weights_only") != "True":
        yield f"{where} without weights_only=True"
    if called in ("np.load", "numpy.load") and arguments.get("allow_pickle") != "False":
        yield f"{where} without allow_pickle=False"
    if called in ("eval", "exec", "compile", "yaml.load", "pd.read_pickle", "pandas.read_pickle", "__import__"):
        yield f"{where} runs code"


def test_no_module_reads_pickles_or_runs_code_that_it_reads() -> None:
    paths = sorted(PACKAGE.rglob("*.py"))
    assert [found for path in paths for found in find_violations(path.read_text(encoding="utf-8"), path.name)] == []


UNSAFE = """
import pickle
from joblib import load
import shelve as s
torch.load(path)
torch.load(path, weights_only=False)
np.load(path)
numpy.load(path, allow_pickle=True)
np.save(path, array, allow_pickle=True)
eval(text)
yaml.load(text)
"""
SAFE = "torch.load(path, weights_only=True); np.load(path, allow_pickle=False)"


def test_every_kind_of_violation_is_found() -> None:
    assert [source for source in UNSAFE.strip().splitlines() if not find_violations(source)] == []
    assert find_violations(SAFE) == []


def test_no_file_of_the_package_is_a_pickle() -> None:
    endings = {".pkl", ".pickle", ".pt", ".pth", ".joblib"}
    assert [path.name for path in PACKAGE.rglob("*") if path.suffix in endings] == []
    for path in PACKAGE.rglob("*.npy"):
        np.load(path, allow_pickle=False)
