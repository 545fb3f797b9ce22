"""Scoring, and answering in memory, over two real processes."""

import json

import pytest
from helpers.commands import run
from helpers.launch import torchrun
from helpers.paths import PROGRAMS

from h2htalk_metric import score

SCRIPT = str(PROGRAMS / "score_on_ranks.py")


PARTS = [
    [["we walk home", "tea", ""], ["we walk home now", "a boat", "x y"]],
    [["good night"], ["good night, Ana"]],
]
ERRORS = [
    ([[["a"], ["b"]], [["a"], []]], "demo", "H2HTalkError: rank 1: 1 predictions but 0 references"),
    # The total number of languages is right, but not per rank: items would get the language of others.
    (
        [[["a", "b"], ["a", "b"], ["zh"]], [["c"], ["c"], ["en", "en"]]],
        "demo",
        "H2HTalkError: rank 0: 2 predictions but 1 languages",
    ),
    # A text in place of a list would be scored letter by letter; None on one rank must not leave the other waiting.
    (
        [["茶好喝吗", "茶"], [["a"], ["b"]]],
        "demo",
        "H2HTalkError: rank 0: predictions is one text; give a list with one entry per item",
    ),
    (
        [[["a"], ["b"]], [None, ["b"]]],
        "demo",
        "H2HTalkError: rank 1: predictions is None; give a list, which may be empty",
    ),
    (
        [[["a"], ["b"]], [["a"], ["b"]]],
        "broken",
        "RuntimeError: rank 0 could not score: OSError: lost",
    ),
]


@pytest.fixture(scope="module")
def results():
    """What two ranks return for each job, as a pair; the first job is a good one, the others have errors."""
    jobs = [("demo", PARTS), *((embedder, parts) for parts, embedder, _ in ERRORS)]
    done = run(*torchrun(2, [SCRIPT]), json.dumps(jobs))
    lines = [line for line in done.stdout.splitlines() if line.startswith("RANK ")]
    assert len(lines) == 2, done.stderr[-3000:]
    of_ranks = [result for _, result in sorted(json.loads(line.removeprefix("RANK ")) for line in lines)]
    return list(zip(*of_ranks, strict=True))


def test_two_ranks_score_as_one_process_does(results):
    whole = score([*PARTS[0][0], *PARTS[1][0]], [*PARTS[0][1], *PARTS[1][1]], embedder="demo").rows()
    for rows in results[0]:
        for mine, alone in zip(rows, whole, strict=True):
            assert mine == pytest.approx(alone, abs=1e-6)


@pytest.mark.parametrize("number", range(len(ERRORS)), ids=[error for _, _, error in ERRORS])
def test_an_error_on_one_rank_reaches_both(number, results):
    assert results[1 + number] == (ERRORS[number][2],) * 2


def test_ranks_of_a_training_loop_do_not_wait_for_a_rank_that_failed():
    done = run(*torchrun(2, [str(PROGRAMS / "answer_on_ranks.py")]))
    errors = sorted(line for line in done.stdout.splitlines() if line.startswith("RANK "))
    reason = "MemoryError: one prompt is too long"
    assert errors == [f"RANK 0 H2HTalkError: another rank failed ({reason})", f"RANK 1 {reason}"], done.stderr
