"""Find the names in a reference that its prompt never mentions: inventions a reader would stumble over."""

__all__ = ["prompt_text", "strangers"]

import re
from functools import cache
from pathlib import Path

import yaml

from h2htalk_datasets.answer_format import strip_scaffold
from h2htalk_datasets.schema import Record

_ALLOWED_FILE = Path(__file__).with_name("allowed_names.yaml")
_CAPITAL = re.compile(r"[^\W\d_a-zß-öø-ÿ][\w’'-]*", re.UNICODE)
# A capital after one of these (or at the start of a line) says nothing: a sentence begins there.
_SENTENCE_START = re.compile(r"(?:^|[.!?…:;—()\"“‘'–-])[\s\"“‘'()]*$")
_ALWAYS = set(
    "I OK TV UK EU US AI PDF SMS GPS Christmas Easter English God Mr Mrs Ms Dr "
    "Monday Tuesday Wednesday Thursday Friday Saturday Sunday "
    "January February March April May June July August September October November December".split()
)


def prompt_text(record: Record) -> str:
    """Everything that a reader of the record's prompt sees of this relationship, as one text."""
    parts = [record.persona, record.companion, record.user, record.instruction or ""]
    parts += [turn.content for turn in record.history]
    parts += [memory.content for memory in record.memories]
    parts += [entry.activity for entry in record.schedule]
    return "\n".join(parts)


def strangers(record: Record) -> list[str]:
    """Names in the reference that stand neither in the prompt nor in ``allowed_names.yaml``."""
    text = re.sub(r"^Memory (?:Category|Importance): .*$", "", record.reference, flags=re.MULTILINE)
    known = _folded_words(prompt_text(record)) | {word.lower() for word in _allowed()["everywhere"]}
    known |= {word.lower() for word in _allowed()["records"].get(record.id, {})}
    unknown = []
    for line in strip_scaffold(text).splitlines():
        for match in _CAPITAL.finditer(line):
            word = re.sub(r"[’']\w{0,2}$", "", match[0])
            if (
                word in _ALWAYS
                or word.removesuffix("s") in _ALWAYS
                or word.isupper()
                or _SENTENCE_START.search(line[: match.start()])
            ):
                continue
            if not _known(word.lower(), known) and word not in unknown:
                unknown.append(word)
    return unknown


def _known(word: str, known: set[str]) -> bool:
    stems = {word, word.removesuffix("s"), word.removesuffix("es"), word + "s"}
    return bool(stems & known) or all(part in known for part in word.split("-"))


def _folded_words(text: str) -> set[str]:
    found = {re.sub(r"[’']\w{0,2}$", "", word) for word in re.findall(r"[\w’'-]+", text.lower())}
    return found | {part for word in found for part in word.split("-")}


@cache
def _allowed() -> dict[str, dict]:
    """Names that may appear without standing in the prompt, each with its reason."""
    return yaml.safe_load(_ALLOWED_FILE.read_text("utf-8"))
