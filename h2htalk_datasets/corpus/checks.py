"""The gates a corpus must pass: each is one function from records to a figure, its limit and the offenders.

The same code measures any list of references, so the published release can be measured beside ours.
"""

__all__ = ["Gate", "distinct", "near_duplicates", "record_gates", "reference_gates"]

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from h2htalk_datasets.answer_format import format_error, is_sentinel, strip_scaffold
from h2htalk_datasets.corpus.names import strangers
from h2htalk_datasets.schema import Record
from h2htalk_datasets.words import words

_LEAK = re.compile(
    r"as an ai\b|language model|\brewritten\b|\(\d+ words?\)|\bplaceholder\b|lorem ipsum|\bTODO\b|\bTBD\b"
    r"|\[[A-Za-z ]{2,20}\]|\{\{|<[a-z]+>|\breference:|\bas requested\b|here is the|here's a (?:reply|response)",
    re.IGNORECASE,
)
Cut = Callable[[str], list[str]]
_STOCK_FILE = Path(__file__).with_name("stock_phrases.txt")


@dataclass
class Gate:
    """One rule with what was measured; `high` says whether the limit is an upper one.

    Attributes:
        rule: what must hold, in words.
        figure: the measured share or number.
        limit: the bound that the figure must not cross.
        offenders: ``where: what`` lines to mend; listed even where a share is still within its limit.

    """

    rule: str
    figure: float
    limit: float
    high: bool = True
    offenders: list[str] = field(default_factory=list)

    @property
    def green(self) -> bool:
        """Whether the figure keeps to the limit."""
        return self.figure <= self.limit if self.high else self.figure >= self.limit


def record_gates(records: Sequence[Record]) -> list[Gate]:
    """The gates that need whole records: forms, names, needs, and the ways of Dialogue per relationship."""
    dialogue = [r for r in records if r.task.startswith("Dialogue")]
    unsaid = [r for r in dialogue if r.need in ("implicit", "evolving")]
    long = [r for r in dialogue if len(r.history) >= 3]
    base = [r for r in records if r.task == "DialogueBase"]
    short = [r for r in base if len(words(r.reference)) < 20]
    return [
        _counted("every reference keeps its task's form and length", records, _broken_contract),
        _counted("names in a reference stand in its prompt", records, _unknown_names),
        _counted("leaked authoring", records, _leak),
        _repeated_fourgrams(records),
        Gate("Dialogue: implicit or evolving need", _share(unsaid, dialogue), 0.35, high=False),
        Gate("Dialogue: histories of 3 turns or more", _share(long, dialogue), 0.50, high=False),
        Gate("DialogueBase: references under 20 words", _share(short, base), 0.30, high=False),
        _worst_file("Dialogue: gesture in parentheses, worst file", dialogue, 0.40, lambda r: "(" in r.reference),
        _worst_file("Dialogue: ends in a question, worst file", dialogue, 0.35, _ends_in_question),
        _worst_file("Dialogue: has a semicolon, worst file", dialogue, 0.15, lambda r: ";" in r.reference),
        _worst_file("Dialogue: names the user, worst file", dialogue, 0.15, _names_user),
    ]


def reference_gates(references: dict[str, list[str]], cut: Cut | None = None) -> list[Gate]:
    """The gates that need only references, by task; so the published release is measured by them too.

    `cut` splits a text into words; for a language that is written without spaces.
    """
    cut = cut or words
    synthesis = references.get("RecollectionSynthesis", [])
    sentinels = [text for text in synthesis if is_sentinel(text)]
    everything = [text for texts in references.values() for text in texts]
    stock = [text for text in everything if any(phrase in _plain(text) for phrase in _stock_phrases())]
    return [
        _exact_duplicates(references),
        Gate("Synthesis sentinel, at least", _share(sentinels, synthesis), 0.10, high=False),
        Gate("Synthesis sentinel, at most", _share(sentinels, synthesis), 0.20),
        *[near_duplicates(task, texts) for task, texts in references.items()],
        *[_openings(task, texts, cut) for task, texts in references.items() if not task.startswith("Recollection")],
        Gate("DialogueBase: distinct-2", distinct(references.get("DialogueBase", []), 2, cut), 0.50, high=False),
        Gate("stock phrases", _share(stock, everything), 0.01, offenders=[text[:90] for text in stock]),
    ]


def distinct(texts: Iterable[str], n: int, cut: Cut | None = None) -> float:
    """Distinct n-grams over all n-grams of the texts, 0..1 (Li et al. 2016); 1.0 where there are none."""
    grams: Counter[tuple[str, ...]] = Counter()
    for text in texts:
        grams.update(_ngrams((cut or words)(text), n))
    return len(grams) / grams.total() if grams else 1.0


def near_duplicates(task: str, texts: Sequence[str]) -> Gate:
    """Share of references with another at a RapidFuzz ratio of 80 or more, scaffold and sentinel aside."""
    import numpy
    from rapidfuzz import fuzz, process

    bare = [strip_scaffold(text) for text in texts if not is_sentinel(text)]
    gate = Gate(f"{task}: near duplicates", 0.0, 0.005)
    near = 0
    for start in range(0, len(bare), 512):
        scores = process.cdist(bare[start : start + 512], bare, scorer=fuzz.ratio, score_cutoff=80, dtype=numpy.uint8)
        for row, line in enumerate(scores, start):
            line[row] = 0
            if line.any():
                near += 1
                gate.offenders.append(f"{bare[row][:70]!r} ~ {bare[int(line.argmax())][:70]!r}")
    gate.figure = near / len(bare) if bare else 0.0
    return gate


def _exact_duplicates(references: dict[str, list[str]]) -> Gate:
    gate = Gate("exact duplicate references in a config", 0, 0)
    for task, texts in references.items():
        counts = Counter(text.strip() for text in texts if not is_sentinel(text))
        gate.offenders += [f"{task}: {n} times {text[:70]!r}" for text, n in counts.items() if n > 1]
    gate.figure = len(gate.offenders)
    return gate


def _openings(task: str, texts: Sequence[str], cut: Cut) -> Gate:
    starts = (tuple(cut(strip_scaffold(text))[:4]) for text in texts)
    firsts = Counter(start for start in starts if len(start) == 4)
    opening, times = firsts.most_common(1)[0] if firsts else (("",), 0)
    # A single repeat in a small config is no habit, so two are always allowed.
    figure = times / len(texts) if times > 2 else 0.0
    return Gate(f"{task}: most common opening", figure, 0.015, offenders=[f"{times} times {' '.join(opening)!r}"])


def _counted(rule: str, records: Sequence[Record], fault: Callable[[Record], str | None]) -> Gate:
    offenders = [f"{r.relationship}: {r.id}: {found}" for r in records if (found := fault(r))]
    return Gate(rule, len(offenders), 0, offenders=offenders)


def _broken_contract(record: Record) -> str | None:
    return format_error(record, record.reference)


def _unknown_names(record: Record) -> str | None:
    unknown = strangers(record)
    return f"not in the prompt: {', '.join(unknown)}" if unknown else None


def _leak(record: Record) -> str | None:
    found = _LEAK.search(record.reference)
    return f"{found[0]!r}" if found else None


def _repeated_fourgrams(records: Sequence[Record]) -> Gate:
    """The same four words in two references of one relationship, names and Recollection aside."""
    gate = Gate("the same 4-gram in two references of one file", 0, 0)
    places: dict[tuple[str, tuple[str, ...]], list[str]] = defaultdict(list)
    for record in records:
        if record.task.startswith("Recollection"):
            continue
        for gram in set(_ngrams(words(strip_scaffold(record.reference)), 4)):
            places[record.relationship, gram].append(record.id)
    names = {r.relationship: _proper_words(r.persona) for r in records}
    for (relationship, gram), ids in places.items():
        if len(ids) > 1 and not names[relationship] & set(gram):
            gate.offenders.append(f"{relationship}: {' '.join(gram)!r} in {' and '.join(ids)}")
    gate.figure = len(gate.offenders)
    return gate


def _worst_file(rule: str, records: Sequence[Record], limit: float, has: Callable[[Record], bool]) -> Gate:
    by_file: dict[str, list[bool]] = defaultdict(list)
    for record in records:
        by_file[record.relationship].append(has(record))
    shares = {file: sum(flags) / len(flags) for file, flags in by_file.items()}
    offenders = [f"{file}: {share:.0%}" for file, share in sorted(shares.items()) if share > limit]
    return Gate(rule, max(shares.values(), default=0.0), limit, offenders=offenders)


def _ends_in_question(record: Record) -> bool:
    return record.reference.rstrip(" \"'’”)").endswith("?")


def _names_user(record: Record) -> bool:
    return record.user in record.reference


def _proper_words(text: str) -> set[str]:
    return {word.lower() for word in re.findall(r"\b[A-Z][\w'’-]+", text)}


def _ngrams(tokens: Sequence[str], n: int) -> Iterable[tuple[str, ...]]:
    return zip(*(tokens[start:] for start in range(n)), strict=False)


def _share(part: Sequence[object], whole: Sequence[object]) -> float:
    return len(part) / len(whole) if whole else 0.0


def _plain(text: str) -> str:
    return text.lower().replace("’", "'")


@cache
def _stock_phrases() -> tuple[str, ...]:
    return tuple(line.strip() for line in _STOCK_FILE.read_text("utf-8").splitlines() if line.strip())
