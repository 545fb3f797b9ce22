import logging
import sqlite3

import numpy as np
import pytest

from h2htalk_metric.metrics.embedding_cache import EmbeddingCache


class Counting:
    """An embedder that counts what it embeds."""

    def __init__(self, dimension=4):
        self.requested, self._dimension = [], dimension

    def __call__(self, texts):
        self.requested += texts
        vectors = np.array([[len(text) + i for i in range(self._dimension)] for text in texts], dtype=np.float32)
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def test_a_text_is_embedded_once_even_across_processes(tmp_path):
    embed = Counting()
    first = EmbeddingCache("e", "1", tmp_path).encode(["a", "bb", "a"], embed)
    again = EmbeddingCache("e", "1", tmp_path).encode(["bb", "ccc", "a"], embed)
    assert embed.requested == ["a", "bb", "ccc"]
    assert np.array_equal(first[[1, 0]], again[[0, 2]])
    assert np.array_equal(again, Counting()(["bb", "ccc", "a"]))


@pytest.mark.parametrize("other", [("e", "2"), ("f", "1")])
def test_another_embedder_or_revision_has_its_own_vectors(tmp_path, other):
    embed = Counting()
    EmbeddingCache("e", "1", tmp_path).encode(["a"], embed)
    EmbeddingCache(*other, tmp_path).encode(["a"], embed)
    assert embed.requested == ["a", "a"]


@pytest.mark.parametrize("damage", ["garbage", "length", "cut"])
def test_a_damaged_file_is_logged_and_created_again(tmp_path, caplog, damage):
    cache = EmbeddingCache("e", "1", tmp_path)
    vectors = cache.encode(["a"], Counting())
    if damage == "garbage":
        cache.file.write_bytes(b"not a database at all" * 500)
    else:
        with sqlite3.connect(cache.file) as database:
            database.execute(f"UPDATE vectors SET value = x'{'00000000' if damage == 'length' else '0000'}'")
    with caplog.at_level(logging.WARNING):
        assert np.array_equal(cache.encode(["a"], Counting()), vectors)
    assert cache.file.name in caplog.text
    assert len(list(tmp_path.glob("*.damaged"))) == 1
    assert np.array_equal(cache.encode(["a"], None), vectors)  # stored again


def test_vectors_of_another_dimension_are_replaced(tmp_path, caplog):
    cache = EmbeddingCache("e", "1", tmp_path)
    cache.encode(["a"], Counting(4))
    with caplog.at_level(logging.WARNING):
        vectors = cache.encode(["a", "b"], Counting(6))
    assert vectors.shape == (2, 6)
    assert "another dimension" in caplog.text


def test_a_folder_that_cannot_be_written_costs_no_result(tmp_path, caplog):
    (tmp_path / "file").write_text("")
    with caplog.at_level(logging.WARNING):
        vectors = EmbeddingCache("e", "1", tmp_path / "file").encode(["a"], Counting())
    assert vectors.shape == (1, 4)
    assert "cannot write the cache" in caplog.text
