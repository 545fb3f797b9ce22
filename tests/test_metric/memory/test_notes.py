"""Notes that a model keeps with the paper's own tasks: what is extracted, merged, corrected, and what fades."""

import datetime
import json

import pytest

from h2htalk_datasets.generation.requests import prompt_of
from h2htalk_metric.memory.notes import take_notes

ARC = {"language": "en", "relationship": "01-x", "companion": "Nora", "user": "Ada", "persona": "A neighbour."}


def session(number, day, text):
    turns = [{"role": "user", "content": text, "number": 1}, {"role": "companion", "content": "I see.", "number": 2}]
    return {"id": f"s{number}", "date": f"2026-03-{day:02}", "time": "20:00", "turns": turns}


HISTORY = [
    session(1, 2, "The scan is on Tuesday. I bought a red pot."),
    session(2, 5, "They moved the scan to Thursday."),
    session(3, 9, "Nothing new."),
]


def memory(content, importance):
    return f"Memory Content: {content}\nMemory Category: Health Status\nMemory Importance: {importance}"


EXTRACTED = {
    "s1": memory("Ada's scan is on Tuesday.", 2) + "\n\n" + memory("Ada bought a red pot.", 0),
    "s2": memory("Ada's scan is on Thursday.", 1),
    "s3": "I would rather talk.",  # not in the format
}


@pytest.fixture
def prompts():
    return []


@pytest.fixture
def answer(prompts):
    """A model that extracts the memories above, and rewrites a memory by saying so."""

    def answer(folder, rows):
        folder.mkdir()
        lines = []
        for row in rows:
            prompts.append(prompt_of(row, sap=False))
            text = next(EXTRACTED[s["id"]] for s in HISTORY if s["turns"][0]["content"] == row["history"][0]["content"])
            if row["task"] == "RecollectionRefinement":
                text = f"corrected: {row['memories'][0]['content']}"
            line = {"id": row["id"], "prediction": text, "task": row["task"], "prompt_tokens": 100, "new_tokens": 10}
            lines.append(json.dumps(line))
        (folder / "run.json").write_text(json.dumps({"format": 1}), "utf-8")
        (folder / "predictions.jsonl").write_text("\n".join(lines) + "\n", "utf-8")

    return answer


def test_notes_are_extracted_merged_and_corrected(tmp_path, answer, prompts):
    book = take_notes(tmp_path, {"01-x": ARC}, {"01-x": HISTORY}, answer)["01-x"]
    assert [note.content for note in book.after["s1"]] == ["Ada's scan is on Tuesday.", "Ada bought a red pot."]
    # The second session's memory is about the first note, which is rewritten and not doubled.
    assert [note.content for note in book.after["s3"]] == [
        "corrected: Ada's scan is on Tuesday.",
        "Ada bought a red pot.",
    ]
    assert [prompt.task for prompt in prompts].count("RecollectionRefinement") == 1
    assert "Thursday 5 March 2026" in prompts[1].messages[1]["content"]
    assert book.tokens == {"s1": 110, "s2": 330, "s3": 440}


def test_notes_fade_by_their_importance(tmp_path, answer):
    book = take_notes(tmp_path, {"01-x": ARC}, {"01-x": HISTORY}, answer)["01-x"]
    assert "red pot" in book.context("s1", datetime.date(2026, 3, 9))
    assert "red pot" not in book.context("s1", datetime.date(2026, 3, 10))  # importance 0: about a week
    assert "scan" in book.context("s3", datetime.date(2027, 3, 10))  # importance 2: lasting
    assert book.context("unknown", datetime.date(2026, 3, 9)) == ""
