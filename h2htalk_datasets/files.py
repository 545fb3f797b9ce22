"""Durable files: written atomically or appended line by line, so that a killed process never leaves a half file."""

__all__ = [
    "append_json_line",
    "cache_folder",
    "describe_write_errors",
    "parse_yaml",
    "read_json_lines",
    "write_all",
    "write_atomically",
]

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from io import FileIO
from pathlib import Path
from typing import Any

import yaml

from h2htalk_datasets.errors import H2HTalkError

_YAML_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the C one is ten times as fast


def cache_folder() -> Path:
    """Return the folder of this project's caches: ``h2htalk`` under ``HF_HOME``."""
    from huggingface_hub.constants import HF_HOME

    return Path(HF_HOME) / "h2htalk"


def parse_yaml(text: str) -> Any:
    """Return the content of a YAML text.

    Raises:
        yaml.YAMLError: it is not YAML.

    """
    return yaml.load(text, Loader=_YAML_LOADER)


def write_atomically(file: Path, content: str | bytes) -> None:
    """Replace a file in one step: readers see the old content or the new content, never a part."""
    part = file.with_name(f".{file.name}.{os.getpid()}.part")
    try:
        with part.open("wb", buffering=0) as handle:
            write_all(handle, content.encode() if isinstance(content, str) else content)
            os.fsync(handle.fileno())
        part.replace(file)
    except OSError:
        part.unlink(missing_ok=True)
        raise


def append_json_line(file: Path, line: Mapping[str, Any]) -> None:
    """Append one JSON line; it is on disk when this returns."""
    with file.open("ab+") as handle:
        if handle.tell() and (handle.seek(-1, os.SEEK_END), handle.read(1))[1] != b"\n":
            handle.write(b"\n")  # a killed process may have left a partial line; do not append to it
        handle.write(json.dumps(line, ensure_ascii=False).encode() + b"\n")
        handle.flush()
        os.fsync(handle.fileno())


def read_json_lines(file: Path) -> Iterator[dict[str, Any]]:
    """Yield the JSON objects of a file, one per line; skip partial lines. Yields nothing if there is no file."""
    if not file.exists():
        return
    for raw in file.read_bytes().split(b"\n"):
        try:
            line = json.loads(raw)
        except ValueError:
            continue
        if isinstance(line, dict):
            yield line


def write_all(handle: FileIO, content: bytes) -> None:
    """Write all bytes to a file. One system call may write only a part, for instance on an almost full disk."""
    rest = memoryview(content)
    while rest:
        rest = rest[handle.write(rest) :]


@contextmanager
def describe_write_errors(what: object) -> Iterator[None]:
    """Turn an operating system error (full disk, missing folder) into a one-line error.

    Raises:
        H2HTalkError: the block raised OSError.

    """
    try:
        yield
    except OSError as error:
        reason = error.strerror or error
        raise H2HTalkError(f"cannot write {what}: {reason}. Fix this, then run the same command again") from None
