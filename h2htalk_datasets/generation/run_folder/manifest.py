"""The manifest ``run.json``: read it, and name what differs between two manifests."""

__all__ = ["differences", "flatten", "read_manifest"]

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from h2htalk_datasets.errors import H2HTalkError

_ABSENT = "(not set)"


def read_manifest(folder: Path) -> dict[str, Any]:
    """Return the content of a run folder's ``run.json``.

    Raises:
        H2HTalkError: the folder has none, or it is not JSON.

    """
    file = folder / "run.json"
    try:
        return json.loads(file.read_text("utf-8"))
    except FileNotFoundError:
        raise H2HTalkError(f"{folder} is not a run folder: it has no run.json") from None
    except ValueError:
        raise H2HTalkError(f"{file} is not valid JSON; restore it or start a new run") from None


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """Return ``key: before -> now`` for each key that differs, in one line; empty if the manifests are equal."""
    old, new = dict(flatten(before)), dict(flatten(json.loads(json.dumps(now))))
    return "; ".join(
        f"{key}: {old.get(key, _ABSENT)} -> {new.get(key, _ABSENT)}"
        for key in sorted(old.keys() | new.keys())
        if old.get(key, _ABSENT) != new.get(key, _ABSENT)
    )


def flatten(tree: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, Any]]:
    """Yield the leaves of nested mappings, each with its keys joined by dots."""
    for key, value in tree.items():
        if isinstance(value, Mapping):
            yield from flatten(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value
