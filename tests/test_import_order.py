"""Imports have one direction: no circles, and the data package imports nothing of the metric package."""

import ast
from graphlib import TopologicalSorter
from pathlib import Path

from helpers.paths import ROOT

FILES = [file for package in ("h2htalk_datasets", "h2htalk_metric") for file in (ROOT / package).rglob("*.py")]
MODULES = {".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): file for file in FILES}


def imports_of(file: Path) -> set[str]:
    """Our modules that a file imports, also inside functions, but not those only for type checkers."""
    tree = ast.parse(file.read_text("utf-8"))
    checks = [node for node in ast.walk(tree) if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)]
    ignored = {id(inner) for node in checks for inner in ast.walk(node)}
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and id(node) not in ignored and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        if isinstance(node, ast.Import) and id(node) not in ignored:
            names |= {alias.name for alias in node.names}
    return names & MODULES.keys()


def test_there_is_no_import_circle():
    graph = {module: imports_of(file) - {module} for module, file in MODULES.items()}
    assert sum(map(len, graph.values())) > 200
    TopologicalSorter(graph).prepare()  # raises if there is a circle, and names it


def test_the_data_package_imports_nothing_of_the_metric_package():
    imports = {name: imports_of(file) for name, file in MODULES.items() if name.startswith("h2htalk_datasets")}
    assert [name for name, needed in imports.items() if any(m.startswith("h2htalk_metric") for m in needed)] == []
