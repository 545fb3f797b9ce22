"""Show, edit and check the relationships of the second edition.

python second-edition/tools.py show 5 [TASK] [FROM-TO]   each record as a model sees it, its labels, points, reference
python second-edition/tools.py apply 5 EDITS.yaml        put edits into the file and keep its format
python second-edition/tools.py check 5 [-v]              the checks of the corpus, then those of the second edition

EDITS.yaml maps the id of a record to the keys to set; null removes a key:

    en-005-DialogueBase-002: {points: ["..."], reference: "..."}
    profile: "the whole new profile; an empty line between paragraphs"
    memories: {"old content, word for word": "new content"}      # `uses` follow

`apply` needs ruamel.yaml (pip install ruamel.yaml).
"""

import re
import sys
import textwrap
from collections import Counter
from pathlib import Path
from typing import Any

import yaml

from h2htalk_datasets.corpus.checks import check_corpus
from h2htalk_datasets.corpus.sources import load_relationship, read_sources
from h2htalk_datasets.prompts import render
from h2htalk_datasets.words import words

FOLDER = Path(__file__).parent / "en"
SPOKEN = ("DialogueBase", "DialogueEmotion", "DialogueSchedule", "ItineraryResponse")
WITH_POINTS = (*SPOKEN, "RecollectionInitialization", "ItineraryInitialization")
KEYS = (
    "history uses schedule today memory hobbies outline itinerary slot doing remark emotion need difficulty points "
    "reference"
).split()
UNQUOTED = {"emotion", "need", "today"}
SKIPPED_CHECKS = ("sentinel", "distinct-2")  # shares over the whole corpus, not over one file
FEELING = re.compile(
    r"\b(sad|lonel|alone|anxi|worr|anger|angry|furious|cross|mad\b|tired|exhaust|worn|weary|done in|knackered|shatter|"
    r"grie[fv]|mourn|guilt|asham|shame|embarrass|afraid|fear|scar|fright|terrif|hurt|hopeless|despair|overwhelm|"
    r"too much|homesick|miss|jealous|env[yi]|disappoint|let down|heavy|bitter|sore|ach(e|ing)|upset|sorrow|heartbroken|"
    r"panic|dread|regret|resent|humiliat|awful|unhappy|miserable|numb|empty|gutted|swamped|drowning|fed up|left out|"
    r"rejected|nervous)",
    re.IGNORECASE,
)
VERBS = frozenset(
    "give tell take put go come stay keep let look read write eat drink sleep sit stand call ring ask bring leave get "
    "turn open close hold wait try say show send make don't stop start check wear wash rest breathe listen find hang "
    "text count walk buy pick use play draw cut set move run carry save lie phone order remember forget do be mind "
    "watch throw drop wipe rinse pour lock promise print copy sign pack hide share add cook fry boil warm mark "
    "name".split()
)
FILLERS = frozenset("please and then so now but just first never ay oh well".split())


def file_of(number: str) -> Path:
    """The file of a relationship's number."""
    (file,) = FOLDER.glob(f"{int(number):02d}-*.yaml")
    return file


def show(number: str, task: str | None = None, span: str = "1-999") -> None:
    """Print records as a model sees them, without the system message."""
    records, errors = read_sources([file_of(number)])
    first, last = map(int, span.split("-"))
    if task is None:
        relationship = load_relationship(file_of(number))
        print(f"PROFILE\n{relationship.companion.profile}\nUSER (never shown): {relationship.user.about}\n")
    for record in records:
        if (task and record.task != task) or not first <= int(record.id[-3:]) <= last:
            continue
        print(f"=== {record.id}  need={record.need} difficulty={record.difficulty} emotion={record.emotion}")
        print(render(record, sap=False)[1]["content"])
        print("POINTS:", " | ".join(record.points))
        print("REFERENCE:", record.reference, "\n")
    print(*errors, sep="\n")


def apply(number: str, edits_file: str) -> None:
    """Put edits into a relationship file; nothing is written if an id, key or memory is unknown."""
    from ruamel.yaml import YAML
    from ruamel.yaml.scalarstring import LiteralScalarString

    ruamel = YAML()
    ruamel.width, ruamel.preserve_quotes = 100_000, True
    ruamel.indent(mapping=2, sequence=4, offset=2)
    file = file_of(number)
    data = ruamel.load(file.read_text("utf-8"))
    problems: list[str] = []
    edits = yaml.safe_load(Path(edits_file).read_text("utf-8"))
    for name, change in edits.items():
        if name == "profile":
            paragraphs = [" ".join(part.split()) for part in re.split(r"\n\s*\n", change.strip())]
            wrapped = "\n\n".join("\n".join(textwrap.wrap(part, 112)) for part in paragraphs)
            data["companion"]["profile"] = LiteralScalarString(wrapped + "\n")
        elif name == "memories":
            problems += _edit_memories(data, change)
        else:
            problems += _edit_record(data, name, change)
    if problems:
        sys.exit("nothing written:\n" + "\n".join(problems))
    with file.open("w", encoding="utf-8") as out:
        ruamel.dump(data, out)
    print(f"applied {len(edits)} edits to {file.name}")


def check(number: str, *options: str) -> None:
    """Print every failed check; exit 1 if there is one."""
    records, _ = read_sources([file_of(number)])
    failed = [
        f"{one.rule}: {one.value:.3g}, limit {one.limit:g}\n      " + "\n      ".join(one.offenders[:12])
        for one in check_corpus([file_of(number)], partial=True)[1]
        if not one.passed and not any(name in one.rule for name in SKIPPED_CHECKS)
    ]
    spoken = [record for record in records if record.task in SPOKEN]
    questions = sum("?" in record.reference for record in spoken)
    if questions < len(spoken) / 4:
        failed.append(f"spoken replies with a question: {questions} of {len(spoken)}, at least a quarter")
    for record in records:
        if record.task == "DialogueEmotion" and not FEELING.search(record.reference):
            failed.append(f"{record.id}: no feeling word")
        if record.task == "DialogueEmotion" and not 3 <= len(record.history) <= 9:
            failed.append(f"{record.id}: {len(record.history)} turns, 3 to 9")
        if record.task in WITH_POINTS and not record.points:
            failed.append(f"{record.id}: no points")
    instructions = [(r.id, found) for r in spoken if (found := _instructions(r.reference))]
    print(f"replies with a question: {questions} of {len(spoken)}")
    print(f"replies with an instruction, roughly: {len(instructions)} of {len(spoken)}, at most a third")
    if "-v" in options:
        print(*(f"      {identity}: {' / '.join(found)}" for identity, found in instructions), sep="\n")
    starts = Counter(" ".join(words(record.reference)[:2]) for record in spoken)
    print("openings used more than twice:", [start for start in starts.most_common(8) if start[1] > 2])
    print(*(f"FAILED {line}" for line in failed), sep="\n")
    print("all checks passed" if not failed else f"{len(failed)} checks failed")
    sys.exit(bool(failed))


def _instructions(text: str) -> list[str]:
    sentences = re.split(r"(?<=[.!?…:;])\s+|\)\s*|, (?:then|and|so) ", text)
    found = []
    for sentence in sentences:
        tokens = words(sentence)
        while tokens and tokens[0] in FILLERS:
            tokens = tokens[1:]
        if tokens and tokens[0].replace("’", "'") in VERBS and "?" not in sentence:
            found.append(sentence.strip())
    return found


def _edit_memories(data: Any, change: dict[str, str]) -> list[str]:
    problems = []
    for old, new in change.items():
        memories = [memory for memory in data["memories"] if memory["content"] == old]
        if not memories:
            problems.append(f"memory not in the file: {old!r}")
            continue
        memories[0]["content"] = _quoted(new)
        for rows in data["records"].values():
            for row in rows:
                for place, used in enumerate(row.get("uses", [])):
                    if used == old:
                        row["uses"][place] = _quoted(new)
    return problems


def _edit_record(data: Any, identity: str, change: dict[str, Any]) -> list[str]:
    match = re.fullmatch(r"en-\d{3}-(\w+)-(\d{3})", identity)
    rows = data["records"].get(match[1]) if match else None
    if match is None or not rows or not 1 <= int(match[2]) <= len(rows):
        return [f"no record {identity}"]
    if unknown := change.keys() - set(KEYS):
        return [f"{identity}: unknown keys {', '.join(sorted(unknown))}"]
    row = rows[int(match[2]) - 1]
    for key, value in change.items():
        if value is None:
            row.pop(key, None)
        elif key in row:
            row[key] = value if key in UNQUOTED else _quoted(value)
        else:
            place = 0 if key == "history" else list(row).index("reference")
            row.insert(place, key, value if key in UNQUOTED else _quoted(value))
    return []


def _quoted(value: Any) -> Any:
    from ruamel.yaml.comments import CommentedMap, CommentedSeq
    from ruamel.yaml.scalarstring import DoubleQuotedScalarString, LiteralScalarString

    if isinstance(value, str):
        return LiteralScalarString(value) if "\n" in value else DoubleQuotedScalarString(value)
    if isinstance(value, list):
        return CommentedSeq([_quoted(part) for part in value])
    if isinstance(value, dict):
        return CommentedMap((key, _quoted(part)) for key, part in value.items())
    return value


if __name__ == "__main__":
    commands = {"show": show, "apply": apply, "check": check}
    if len(sys.argv) < 3 or sys.argv[1] not in commands:
        sys.exit(__doc__)
    commands[sys.argv[1]](*sys.argv[2:])
