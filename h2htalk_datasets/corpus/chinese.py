"""The checks of Chinese records: what the English ones do with words, on characters."""

__all__ = ["check_chinese", "chinese_names", "commands", "name_problem"]

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

from h2htalk_datasets.answer_format import strip_scaffold
from h2htalk_datasets.corpus.check import Check, per_file, share, worst_file
from h2htalk_datasets.corpus.names import allowed_words, prompt_text
from h2htalk_datasets.files import parse_yaml
from h2htalk_datasets.languages import LANGUAGES, is_sentinel
from h2htalk_datasets.schema import Record

_SPOKEN = ("DialogueBase", "DialogueEmotion", "DialogueSchedule", "ItineraryResponse")
_LEXICON_FILE = Path(__file__).with_name("speech_zh.yaml")
_HELPLINES_FILE = Path(__file__).parents[1] / "probes" / "helplines.yaml"
_RUN, _PHRASE = 5, 8  # characters in a row that two references of one file, of two files, may not share
_HAN = "\u4e00-\u9fff"
_CLAUSE = re.compile(rf"[^{_HAN}A-Za-z0-9]+")
_SENTENCE = re.compile(r"(?<=[。！？!?…；\n])|(?<=[，,])")
_HALF_WIDTH = re.compile(rf"[{_HAN}]\s*[,;:?!]\s*[{_HAN}]")
_NOT_BUT = re.compile(r"不是[^，。]{1,12}[，,]?而是")
_ACTIVITY = re.compile(r"^\d\d:\d\d (.+)$", re.MULTILINE)
_CALL = re.compile(r"(?:打|拨|热线|电话)\s*[“：]?(\d{3,})")
_SIX_TURNS = 0.08

_count = LANGUAGES["zh"].count


def check_chinese(records: Sequence[Record], *, partial: bool) -> list[Check]:
    """The checks of Chinese references, per relationship and over the corpus.

    Args:
        records: of one or more relationships.
        partial: whether there may be fewer than all fifty relationships.

    """
    dialogue = [record for record in records if record.task.startswith("Dialogue")]
    base = [record for record in records if record.task == "DialogueBase"]
    short = share(base, lambda r: _count(r.reference) < 30)
    six = share(dialogue, lambda r: len(r.history) >= 6)
    # A single relationship may have short conversations only.
    least_six = 0.0 if partial else _SIX_TURNS
    return [
        Check.no_offenders("no five characters in two references of one file", _repeats(records)),
        Check.no_offenders("ItineraryMiddle: an activity at most three times per file", _activities(records)),
        Check.no_offenders("no eight characters in two relationships", _shared_phrases(records)),
        Check.no_offenders("punctuation between Chinese characters is full-width", _matching(records, _HALF_WIDTH)),
        Check.no_offenders("no 不是……而是", _matching(records, _NOT_BUT)),
        Check.no_offenders("no line break in a reference in prose", _line_breaks(records)),
        Check.no_offenders("a number to call is a reviewed helpline or in the prompt", _unknown_numbers(records)),
        Check.no_offenders("Synthesis: the sentinel once or twice per file", _sentinels(records)),
        Check("DialogueBase: references under 30 characters", short, 0.33, at_least=True),
        Check("Dialogue: histories of 6 turns or more", six, least_six, at_least=True),
        worst_file("Dialogue: uses a memory, worst file", dialogue, 0.30, lambda r: bool(r.memories), at_least=True),
        worst_file("Dialogue: ends in a question, worst file", dialogue, 0.40, _ends_in_question),
        worst_file("Dialogue: has a question, worst file", dialogue, 0.22, _has_question, at_least=True),
        worst_file("Dialogue: names the user, worst file", dialogue, 0.25, _names_user),
        worst_file("Dialogue: gesture in parentheses, worst file", dialogue, 0.40, lambda r: "（" in r.reference),
        worst_file("spoken: has a command, worst file", _spoken(records), 0.345, lambda r: bool(commands(r.reference))),
        _check_openings(dialogue),
    ]


def chinese_names(text: str) -> list[str]:
    """Names with a title (高姐, 陈老师) or a prefix (老万, 小付), in the order of their first use."""
    lexicon = _lexicon()
    surnames, titles = f"[{lexicon['surnames']}]", "|".join(sorted(lexicon["titles"].split(), key=len, reverse=True))
    # "老高兴" has no name in it.
    pattern = rf"{surnames}(?:{titles})|[老小阿]{surnames}(?!兴)"
    return list(dict.fromkeys(re.findall(pattern, text)))


def commands(text: str) -> list[str]:
    """The clauses of a reply that begin like a command or are a short one that ends in 吧, without questions."""
    lexicon = _lexicon()
    fillers, starts, others = (tuple(lexicon[key].split()) for key in ("fillers", "commands", "no_commands"))
    result = []
    for clause in _SENTENCE.split(text):
        bare = clause.strip(" ，,。！!…；\n“”")
        while start := next((filler for filler in fillers if bare.startswith(filler)), ""):
            bare = bare[len(start) :]
        is_short = 1 < len(bare) <= 4 and bare.endswith("吧") and not re.search("[是有没在了]", bare)
        is_command = is_short or (bare.startswith(starts) and not bare.startswith(others))
        if is_command and not re.search("[?？]", clause):
            result.append(clause.strip())
    return result


def name_problem(record: Record, text: str) -> str | None:
    """Names with a title or a prefix in a reference that its prompt does not have."""
    shown, allowed = prompt_text(record), allowed_words(record.id)
    unknown = [name for name in chinese_names(strip_scaffold(text)) if name not in shown and name not in allowed]
    return f"not in the prompt: {', '.join(unknown)}" if unknown else None


def _repeats(records: Iterable[Record]) -> Iterator[str]:
    where: Mapping[tuple[str, str], list[str]] = defaultdict(list)
    people: dict[str, tuple[str, str]] = {}
    for record in records:
        people[record.relationship] = (record.companion, record.user)
        if not record.task.startswith("Recollection") and record.task != "ItineraryMiddle":
            for run in _runs(record.reference, _RUN):
                where[record.relationship, run].append(record.id)
    for (relationship, run), ids in where.items():
        if len(ids) > 1 and not any(name in run for name in people[relationship]):
            yield f"{relationship}: {run!r} in {' and '.join(ids)}"


def _runs(text: str, length: int) -> set[str]:
    """The runs of characters within the clauses of a text, without times and step numbers."""
    clauses = _CLAUSE.split(re.sub(r"\d\d:\d\d ?|^\d\. ", "", text, flags=re.MULTILINE))
    return {clause[start : start + length] for clause in clauses for start in range(len(clause) - length + 1)}


def _shared_phrases(records: Iterable[Record]) -> Iterator[str]:
    where: Mapping[str, dict[str, str]] = defaultdict(dict)
    for record in records:
        if not record.task.startswith("Recollection") and record.task != "ItineraryMiddle":
            for run in _runs(record.reference, _PHRASE):
                where[run].setdefault(record.relationship, record.id)
    allowed = _lexicon()["shared_phrases"]
    for run, ids in where.items():
        if len(ids) > 1 and not any(phrase in run for phrase in allowed):
            yield f"{run!r} in {' and '.join(ids.values())}"


def _activities(records: Iterable[Record]) -> Iterator[str]:
    counts = Counter(
        (record.relationship, activity)
        for record in records
        if record.task == "ItineraryMiddle"
        for activity in _ACTIVITY.findall(record.reference)
    )
    for (relationship, activity), times in counts.items():
        if times > 3 and _count(activity) > 3:
            yield f"{relationship}: {activity!r} {times} times"


def _matching(records: Iterable[Record], pattern: re.Pattern[str]) -> Iterator[str]:
    for record in records:
        for text in (record.reference, *record.alternatives):
            if match := pattern.search(text):
                yield f"{record.relationship}: {record.id}: {match[0]!r}"


def _unknown_numbers(records: Iterable[Record]) -> Iterator[str]:
    for record in records:
        for text in (record.reference, *record.alternatives):
            for number in _CALL.findall(text):
                if number not in _helplines() and number not in prompt_text(record):
                    yield f"{record.relationship}: {record.id}: {number}"


def _line_breaks(records: Iterable[Record]) -> Iterator[str]:
    with_lines = ("RecollectionSynthesis", "ItineraryMiddle", "ItineraryAdvanced")
    for record in records:
        texts = (record.reference, *record.alternatives)
        if record.task not in with_lines and any("\n" in text.strip() for text in texts):
            yield f"{record.relationship}: {record.id}"


def _sentinels(records: Iterable[Record]) -> Iterator[str]:
    synthesis = [record for record in records if record.task == "RecollectionSynthesis"]
    for relationship, own in per_file(synthesis).items():
        times = sum(is_sentinel(record.reference) for record in own)
        if not 1 <= times <= 2:
            yield f"{relationship}: {times} times"


def _check_openings(dialogue: Sequence[Record]) -> Check:
    """Most common first three characters of a file's Dialogue references."""
    shares = {}
    for relationship, own in per_file(dialogue).items():
        opening, times = Counter(record.reference[:3] for record in own).most_common(1)[0]
        shares[f"{relationship}: {times} times {opening!r}"] = times / len(own) if times > 2 else 0.0
    worst, offenders = max(shares.values(), default=0.0), [line for line, value in shares.items() if value > 0.065]
    return Check("Dialogue: most common opening, worst file", worst, 0.065, offenders=offenders)


def _spoken(records: Iterable[Record]) -> list[Record]:
    return [record for record in records if record.task in _SPOKEN]


def _ends_in_question(record: Record) -> bool:
    return record.reference.rstrip("”） ").endswith(("？", "?"))


def _has_question(record: Record) -> bool:
    return "？" in record.reference or "?" in record.reference


def _names_user(record: Record) -> bool:
    """Whether a reference has the user's full name, or what stands after the surname."""
    return record.user in record.reference or (len(record.user) > 1 and record.user[1:] in record.reference)


@cache
def _helplines() -> frozenset[str]:
    """Numbers of mainland China, each reviewed with its source."""
    return frozenset(parse_yaml(_HELPLINES_FILE.read_text("utf-8"))["China"])


@cache
def _lexicon() -> dict[str, str]:
    return parse_yaml(_LEXICON_FILE.read_text("utf-8"))
