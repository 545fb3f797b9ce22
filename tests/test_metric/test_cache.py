"""The cache on disk: damage, other processes, and places that cannot be written."""

import logging
import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest

from h2htalk_metric.cache import DiskCache


@pytest.fixture
def cache(tmp_path):
    return DiskCache(tmp_path / "folder" / "cache.sqlite", timeout=0.1)


def test_values_are_found_by_another_process(cache):
    assert cache.get(["a"]) == {}
    cache.put({"a": "1", "b": "2"})
    cache.put({"b": "3"})
    program = "import sys, pathlib; from h2htalk_metric.cache import DiskCache; "
    program += "print(DiskCache(pathlib.Path(sys.argv[1])).get(['a', 'b', 'c']))"
    shown = subprocess.run([sys.executable, "-c", program, cache.file], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "{'a': '1', 'b': '3'}"


def test_more_keys_than_a_query_may_have(cache):
    cache.put({str(n): str(n) for n in range(40_000)})
    assert len(cache.get([str(n) for n in range(40_000)])) == 40_000


def test_a_damaged_file_is_renamed_and_created_again(cache, caplog):
    cache.file.parent.mkdir()
    cache.file.write_bytes(b"not a database" * 100)
    with caplog.at_level(logging.WARNING):
        assert cache.get(["a"]) == {}
    assert "renamed" in caplog.text and len(list(cache.file.parent.glob("*.damaged"))) == 1
    cache.put({"a": "1"})
    assert cache.get(["a"]) == {"a": "1"}


def test_a_file_that_another_process_locks_or_has_just_created_stays(cache):
    cache.file.parent.mkdir()
    cache.file.touch()  # created by another process, without a table yet
    assert cache.get(["a"]) == {}
    cache.put({"a": "1"})
    with closing(sqlite3.connect(cache.file)) as other:
        other.execute("BEGIN EXCLUSIVE")
        assert cache.get(["a"]) == {}
        other.rollback()
    assert cache.get(["a"]) == {"a": "1"} and not list(cache.file.parent.glob("*.damaged"))


def test_a_place_that_cannot_be_written_costs_no_result(tmp_path, caplog):
    (tmp_path / "file").write_text("")
    with caplog.at_level(logging.WARNING):
        DiskCache(tmp_path / "file" / "cache.sqlite").put({"a": "1"})
    assert "cannot write the cache" in caplog.text
