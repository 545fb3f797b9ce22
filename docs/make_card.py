"""Write the example of each config into the dataset card, from the shipped records, so that they always agree.

    python docs/make_card.py

It replaces what stands between ``<!-- examples -->`` and ``<!-- end of examples -->``.
"""

import re
from pathlib import Path

from h2htalk_datasets.loading import records_of

CARD = Path(__file__).parents[1] / "h2htalk_datasets" / "README.md"
EXAMPLES = {
    "DialogueBase": (20, "A short reply to the last turn; a gesture in (parentheses) is allowed."),
    "DialogueEmotion": (13, "Comfort that receives the feeling, names it, stays, and invites more."),
    "DialogueSchedule": (25, "A reply that uses the companion's day naturally."),
    "RecollectionSynthesis": (30, "The lasting facts about the user in a conversation, with category and importance."),
    "RecollectionRefinement": (40, "One memory, corrected or completed, in at most 25 words."),
    "RecollectionInitialization": (15, "A first message that opens from a memory."),
    "ItineraryBasic": (11, "A day together, told in prose of at most 100 words."),
    "ItineraryMiddle": (17, "A day of the companion as a timetable, from an outline."),
    "ItineraryAdvanced": (21, "One entry of a day, in three to five steps."),
    "ItineraryResponse": (33, "A reply to a remark about what the companion is doing."),
    "ItineraryInitialization": (9, "A message out of the companion's day."),
}
"""Config name to the place of its example among the records, and what the task is."""


def example(task: str, place: int, summary: str) -> str:
    """One example as Markdown: the record's own part of the prompt, its points, its reference."""
    record = records_of(task)[place]
    parts = [
        f"### {task}",
        summary,
        f"`{record['id']}`, the record's own part of the prompt:",
        f"```text\n{record['messages'][1]['content']}\n```",
    ]
    if record["points"]:
        parts.append(f"Points of a good answer: {'; '.join(record['points'])}")
    return "\n\n".join([*parts, "Reference:", f"```text\n{record['reference']}\n```"])


def main() -> None:
    """Rewrite the examples of the card."""
    examples = "\n\n".join(example(task, place, summary) for task, (place, summary) in EXAMPLES.items())
    text = CARD.read_text("utf-8")
    marked = re.compile(r"(?<=<!-- examples -->\n).*?(?=\n<!-- end of examples -->)", re.DOTALL)
    if not marked.search(text):
        raise SystemExit(f"{CARD} has no place for the examples")
    CARD.write_text(marked.sub(lambda _: f"\n{examples}\n", text), "utf-8")


if __name__ == "__main__":
    main()
