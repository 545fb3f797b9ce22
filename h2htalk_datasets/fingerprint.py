"""One digest for rows, by content and not by how they are stored."""

__all__ = ["fingerprint"]

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any


def fingerprint(rows: Iterable[Mapping[str, Any]]) -> str:
    """SHA-256 (hex) over the rows' content in their order."""
    digest = hashlib.sha256()
    for row in rows:
        digest.update(json.dumps(row, sort_keys=True, ensure_ascii=False).encode())
        digest.update(b"\n")
    return digest.hexdigest()
