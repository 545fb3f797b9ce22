"""Histories of a length: nothing that a question needs is lost, and nothing from after the question is shown."""

import pytest

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.loading import load_memory
from h2htalk_datasets.memory.history import LENGTHS, history_of, num_tokens, session_text, visible_sessions
from h2htalk_datasets.memory.schema import read_small_talk


@pytest.fixture(scope="module")
def rows():
    every = load_memory().to_list()
    return [row for row in every if row["relationship"] == every[0]["relationship"]]


def size(history):
    return sum(num_tokens(turn["content"]) for session in history for turn in session["turns"])


def test_the_arc_is_shown_as_it_is_written(rows):
    history = history_of(rows, "arc", [])
    longest = max((row["sessions"] for row in rows), key=len)
    assert [[turn["content"] for turn in s["turns"]] for s in history] == [
        [turn["content"] for turn in s["turns"]] for s in longest
    ]


@pytest.mark.parametrize("length", LENGTHS)
def test_evidence_stays_and_comes_before_the_question(rows, length):
    history = history_of(rows, length, read_small_talk())
    assert history == history_of(rows, length, read_small_talk())  # the same every time
    dates = [session["date"] for session in history]
    assert dates == sorted(dates)
    for row in rows:
        visible = visible_sessions(row, history)
        assert all(session["date"] <= row["date"] for session in visible)
        shown = {(session["id"], turn["number"]) for session in visible for turn in session["turns"]}
        assert {(place["session"], place["turn"]) for place in row["evidence"]} <= shown


def test_lengths_are_kept(rows):
    small_talk = read_small_talk()
    assert 1_000 < size(history_of(rows, "2k", small_talk)) <= 2_400  # evidence may need a little more
    assert 7_000 < size(history_of(rows, "8k", small_talk)) <= 8_000
    assert 31_000 < size(history_of(rows, "32k", small_talk)) <= 32_000


def test_a_history_that_cannot_be_made_is_refused(rows):
    with pytest.raises(H2HTalkError, match="not enough small talk"):
        history_of(rows, "32k", read_small_talk()[:3])
    with pytest.raises(H2HTalkError, match="unknown length '5k'"):
        history_of(rows, "5k", [])


def test_a_session_reads_like_a_log():
    turns = [{"role": "user", "content": "Hi."}, {"role": "companion", "content": "Hello."}]
    session = {"id": "s1", "date": "2026-03-12", "time": "21:40", "turns": turns}
    assert session_text(session, "Ada", "Nora") == "Thursday 12 March 2026, 21:40\nAda: Hi.\nNora: Hello."
