"""Find names in a reference that its prompt does not mention; a reader would not know who or what they are."""

__all__ = ["allowed_words", "prompt_text", "unknown_names"]

import re
from functools import cache
from pathlib import Path
from typing import Any

from h2htalk_datasets.answer_format import strip_scaffold
from h2htalk_datasets.files import parse_yaml
from h2htalk_datasets.schema import Record

_ALLOWED_FILE = Path(__file__).with_name("allowed_names.yaml")
_CAPITALIZED = re.compile(r"[^\W\d_a-zß-öø-ÿ][\w’'-]*")
_MEMORY_LABELS = re.compile(r"^Memory (?:Category|Importance): .*$", re.MULTILINE)
_SHORT_ENDING = re.compile(r"[’']\w{0,2}$")  # 's, 'll, or a closing quote
# After these, or at the start of a line, a capital only begins a sentence.
_SENTENCE_START = re.compile(r"(?:^|[.!?…:;—()\"“‘'–-])[\s\"“‘'()]*$")
_COMMON = set(
    "I OK TV UK EU US AI PDF SMS GPS Christmas Easter English God Mr Mrs Ms Dr "
    "Monday Tuesday Wednesday Thursday Friday Saturday Sunday "
    "January February March April May June July August September October November December".split()
)


def unknown_names(record: Record, text: str | None = None) -> list[str]:
    """Names that are neither in the prompt nor in ``allowed_names.yaml``.

    Args:
        record: the record.
        text: the text to search; the record's reference if None. English.

    Returns:
        The names in the order of their first use.

    """
    text = strip_scaffold(_MEMORY_LABELS.sub("", record.reference if text is None else text))
    explained = _words_and_parts(prompt_text(record)) | allowed_words(record.id)
    unknown = []
    for line in text.splitlines():
        for match in _CAPITALIZED.finditer(line):
            word = _SHORT_ENDING.sub("", match[0])
            if _is_common(word) or _SENTENCE_START.search(line[: match.start()]):
                continue
            if not _is_explained(word.lower(), explained) and word not in unknown:
                unknown.append(word)
    return unknown


def prompt_text(record: Record) -> str:
    """Everything in a prompt that belongs to its record: the persona, who the two are, and the record's own part."""
    parts = [record.persona, record.companion, record.user, record.instruction or ""]
    parts += [turn.content for turn in record.history]
    parts += [memory.content for memory in record.memories]
    parts += [entry.activity for entry in record.schedule]
    return "\n".join(parts)


def _words_and_parts(text: str) -> set[str]:
    """The words of a text in lower case, and the parts of words with hyphens."""
    complete = {_SHORT_ENDING.sub("", word) for word in re.findall(r"[\w’'-]+", text.lower())}
    return complete | {part for word in complete for part in word.split("-")}


def allowed_words(identity: str) -> set[str]:
    """Return the names that a record may use although its prompt does not show them, in lower case."""
    allowed = _allowed_names()
    return {word.lower() for word in (*allowed["everywhere"], *allowed["records"].get(identity, {}))}


def _is_common(word: str) -> bool:
    return word in _COMMON or word.removesuffix("s") in _COMMON or word.isupper()


def _is_explained(word: str, explained: set[str]) -> bool:
    forms = {word, word.removesuffix("s"), word.removesuffix("es"), word + "s"}
    return bool(forms & explained) or all(part in explained for part in word.split("-"))


@cache
def _allowed_names() -> dict[str, dict[str, Any]]:
    """Names that need not be in the prompt, each with the reason."""
    return parse_yaml(_ALLOWED_FILE.read_text("utf-8"))
