"""Arrows go one way: no module needs one that needs it, and the data nothing of the metric."""

import ast
from graphlib import TopologicalSorter
from pathlib import Path

from helpers.paths import ROOT

FILES = [file for package in ("h2htalk_datasets", "h2htalk_metric") for file in (ROOT / package).rglob("*.py")]
MODULES = {".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): file for file in FILES}


def imported(file: Path) -> set[str]:
    """Modules of ours that a file imports anywhere, in functions too; not what only a type checker reads."""
    tree = ast.parse(file.read_text("utf-8"))
    typing = [node for node in ast.walk(tree) if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)]
    unread = {id(inner) for node in typing for inner in ast.walk(node)}
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and id(node) not in unread and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        if isinstance(node, ast.Import) and id(node) not in unread:
            names |= {alias.name for alias in node.names}
    return names & MODULES.keys()


def test_there_is_an_order_in_which_all_modules_could_be_written():
    graph = {module: imported(file) - {module} for module, file in MODULES.items()}
    assert sum(map(len, graph.values())) > 200
    TopologicalSorter(graph).prepare()  # raises where there is a circle, and names it


def test_the_data_needs_nothing_of_the_metric():
    data = {name: imported(file) for name, file in MODULES.items() if name.startswith("h2htalk_datasets")}
    assert [name for name, needs in data.items() if any(need.startswith("h2htalk_metric") for need in needs)] == []
