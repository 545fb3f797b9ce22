"""The checks that a corpus must pass.

The checks over references alone also measure the published release.
"""

__all__ = [
    "check_corpus",
    "check_counts",
    "check_near_duplicates",
    "check_records",
    "check_references",
    "distinct",
]

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from h2htalk_datasets.answer_format import format_error, strip_scaffold
from h2htalk_datasets.corpus.check import Check, share, worst_file
from h2htalk_datasets.corpus.chinese import check_chinese, name_problem
from h2htalk_datasets.corpus.names import unknown_names
from h2htalk_datasets.corpus.sources import load_cast, read_sources
from h2htalk_datasets.corpus.speech import check_speech
from h2htalk_datasets.files import parse_yaml
from h2htalk_datasets.languages import LANGUAGES, is_sentinel
from h2htalk_datasets.schema import Record
from h2htalk_datasets.tasks import TASKS
from h2htalk_datasets.words import words

Tokenize = Callable[[str], list[str]]

_LEAK = re.compile(
    r"as an ai\b|language model|\brewritten\b|\(\d+ words?\)|\bplaceholder\b|lorem ipsum|\bTODO\b|\bTBD\b"
    r"|\[[A-Za-z ]{2,20}\]|\{\{|<[a-z]+>|\breference:|\bas requested\b|here is the|here's a (?:reply|response)"
    r"|作为(?:一个|一名)?(?:AI|人工智能)|语言模型|[（(]\d+ ?个?字[）)]|参考答案|待补充|此处省略",
    re.IGNORECASE,
)
_STOCK_PHRASES = {"en": "stock_phrases.txt", "zh": "stock_phrases_zh.txt"}
_ALLOWED_REPEATS_FILE = Path(__file__).with_name("allowed_repeats.yaml")


def check_corpus(files: Sequence[Path], *, partial: bool, language: str = "en") -> tuple[list[Record], list[Check]]:
    """Read relationship files and run all checks.

    Args:
        files: relationship files.
        partial: whether there may be fewer than all fifty relationships; each file must have its own quota.
        language: language of the records.

    Returns:
        The records without messages, and the checks.

    """
    records, errors = read_sources(files, language)
    references: dict[str, list[str]] = {task: [] for task in TASKS}
    for record in records:
        references[record.task].append(record.reference)
    return records, [
        Check.no_offenders("schema: every file, record and field", errors),
        check_counts(records, partial=partial, language=language),
        _check_honest_answers(records, language),
        *check_records(records, language),
        *(check_speech if language == "en" else check_chinese)(records, partial=partial),
        *check_references(references, language),
    ]


def check_counts(records: Sequence[Record], *, partial: bool, language: str = "en") -> Check:
    """Each relationship has its quota of records, and, unless `partial`, all together have Table 1's counts."""
    quotas = {row.slug: row.quota() for row in load_cast(language)}
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for record in records:
        counts[record.relationship][record.task] += 1
    offenders = [f"{slug}: not in cast.yaml" for slug in counts if slug not in quotas]
    offenders += [
        f"{slug}: {task} has {counts[slug][task]} records, expected {n}"
        for slug in counts
        for task, n in quotas.get(slug, {}).items()
        if counts[slug][task] != n
    ]
    if not partial:
        totals = Counter(record.task for record in records)
        wrong = [task for task in TASKS.values() if totals[task.name] != task.count]
        offenders += [f"{task.name}: {totals[task.name]} records, Table 1 has {task.count}" for task in wrong]
    return Check.no_offenders("counts: the quota of each file" + ("" if partial else ", Table 1 in total"), offenders)


def check_records(records: Sequence[Record], language: str = "en") -> list[Check]:
    """The checks that need complete records: formats, names, needs, and the style of English Dialogue per file."""
    dialogue = [record for record in records if record.task.startswith("Dialogue")]
    unstated = share(dialogue, lambda r: r.need in ("implicit", "evolving"))
    long = share(dialogue, lambda r: len(r.history) >= 3)
    unknown_name = _name_problem if language == "en" else name_problem
    return [
        _check_each_reference("format and length of every reference", records, format_error),
        _check_each_reference("names in a reference are in its prompt", records, unknown_name),
        _check_each_reference("no leaked authoring", records, _leak),
        Check("Dialogue: implicit or evolving need", unstated, 0.35, at_least=True),
        Check("Dialogue: histories of 3 turns or more", long, 0.50, at_least=True),
        *(_check_english_style(records) if language == "en" else []),
    ]


def _check_english_style(records: Sequence[Record]) -> list[Check]:
    dialogue = [record for record in records if record.task.startswith("Dialogue")]
    base = [record for record in records if record.task == "DialogueBase"]
    short = share(base, lambda r: len(words(r.reference)) < 20)
    return [
        _check_repeats(records),
        Check("DialogueBase: references under 20 words", short, 0.30, at_least=True),
        worst_file("Dialogue: gesture in parentheses, worst file", dialogue, 0.40, lambda r: "(" in r.reference),
        worst_file("Dialogue: ends in a question, worst file", dialogue, 0.35, _ends_in_question),
        worst_file("Dialogue: has a semicolon, worst file", dialogue, 0.15, lambda r: ";" in r.reference),
        worst_file("Dialogue: names the user, worst file", dialogue, 0.15, lambda r: r.user in r.reference),
    ]


def check_references(references: Mapping[str, Sequence[str]], language: str = "en") -> list[Check]:
    """The checks that need only references, so they also measure the published release.

    Args:
        references: references by task.
        language: of the references.

    """
    tokenize = LANGUAGES[language].words
    synthesis = references.get("RecollectionSynthesis", [])
    sentinels = share(synthesis, is_sentinel)
    spoken = {task: texts for task, texts in references.items() if not task.startswith("Recollection")}
    distinct_2 = distinct(references.get("DialogueBase", []), 2, tokenize)
    return [
        _check_exact_duplicates(references),
        Check("Synthesis sentinel, at least", sentinels, 0.10, at_least=True),
        # In Chinese each file may have two in eight, see check_chinese.
        Check("Synthesis sentinel, at most", sentinels, 0.20 if language == "en" else 0.25),
        *[check_near_duplicates(task, texts) for task, texts in references.items()],
        *[_check_openings(task, texts, tokenize) for task, texts in spoken.items()],
        Check("DialogueBase: distinct-2", distinct_2, 0.50, at_least=True),
        _check_stock_phrases([text for texts in references.values() for text in texts], language),
    ]


def distinct(texts: Iterable[str], n: int, tokenize: Tokenize = words) -> float:
    """Distinct n-grams over all n-grams of the texts, 0..1 (Li et al. 2016); 1.0 if there are none."""
    grams: Counter[tuple[str, ...]] = Counter()
    for text in texts:
        grams.update(_ngrams(tokenize(text), n))
    return len(grams) / grams.total() if grams else 1.0


def check_near_duplicates(name: str, texts: Sequence[str]) -> Check:
    """Share of texts with another one at a RapidFuzz ratio of 80 or more, without scaffold and sentinels."""
    import numpy
    from rapidfuzz import fuzz, process

    bare = [strip_scaffold(text) for text in texts if not is_sentinel(text)]
    offenders = []
    for start in range(0, len(bare), 512):
        scores = process.cdist(bare[start : start + 512], bare, scorer=fuzz.ratio, score_cutoff=80, dtype=numpy.uint8)
        for index, row in enumerate(scores, start):
            row[index] = 0  # not a duplicate of itself
            if row.any():
                offenders.append(f"{bare[index][:70]!r} ~ {bare[int(row.argmax())][:70]!r}")
    return Check(f"{name}: near duplicates", len(offenders) / max(1, len(bare)), 0.005, offenders=offenders)


def _check_honest_answers(records: Sequence[Record], language: str) -> Check:
    """Each relationship has one reference that says that the companion is not a person, as worded in cast.yaml.

    A row of the Chinese cast may have no wording yet.
    """
    wordings = {row.slug: row.honest for row in load_cast(language)}
    not_yet = {slug for slug, wording in wordings.items() if language == "zh" and wording is None}
    offenders = []
    for slug in sorted({record.relationship for record in records} - not_yet):
        wording = wordings.get(slug)
        times = sum(wording in r.reference for r in records if r.relationship == slug) if wording else 0
        if times != 1:
            offenders.append(f"{slug}: {wording!r} occurs {times} times")
    return Check.no_offenders("honest answer: one per file, as in cast.yaml", offenders)


def _check_each_reference(
    rule: str, records: Sequence[Record], problem_of: Callable[[Record, str], str | None]
) -> Check:
    offenders = []
    for record in records:
        for text in (record.reference, *record.alternatives):
            if problem := problem_of(record, text):
                offenders.append(f"{record.relationship}: {record.id}: {problem}")
    return Check.no_offenders(rule, offenders)


def _name_problem(record: Record, text: str) -> str | None:
    unknown = unknown_names(record, text)
    return f"not in the prompt: {', '.join(unknown)}" if unknown else None


def _leak(record: Record, text: str) -> str | None:
    match = _LEAK.search(text)
    return repr(match[0]) if match else None


def _check_repeats(records: Sequence[Record]) -> Check:
    """No four words in a row in two references of one relationship, except names, Recollection and allowed ones."""
    ids: dict[tuple[str, tuple[str, ...]], list[str]] = defaultdict(list)
    exempt: dict[str, set[str]] = {}
    for record in records:
        exempt[record.relationship] = _capitalized_words(record.persona)
        if not record.task.startswith("Recollection"):
            for gram in set(_ngrams(words(strip_scaffold(record.reference)), 4)):
                ids[record.relationship, gram].append(record.id)
    allowed = parse_yaml(_ALLOWED_REPEATS_FILE.read_text("utf-8"))
    offenders = [
        f"{relationship}: {' '.join(gram)!r} in {' and '.join(where)}"
        for (relationship, gram), where in ids.items()
        if len(where) > 1
        and not exempt[relationship] & set(gram)
        and " ".join(gram) not in allowed.get(relationship, {})
    ]
    return Check.no_offenders("no 4-gram in two references of one file", offenders)


def _check_exact_duplicates(references: Mapping[str, Sequence[str]]) -> Check:
    offenders = []
    for task, texts in references.items():
        counts = Counter(text.strip() for text in texts if not is_sentinel(text))
        offenders += [f"{task}: {n} times {text[:70]!r}" for text, n in counts.items() if n > 1]
    return Check.no_offenders("exact duplicate references of a task", offenders)


def _check_openings(task: str, texts: Sequence[str], tokenize: Tokenize) -> Check:
    starts = (tuple(tokenize(strip_scaffold(text))[:4]) for text in texts)
    counts = Counter(start for start in starts if len(start) == 4)
    opening, times = counts.most_common(1)[0] if counts else (("",), 0)
    # In a small task one repetition would exceed the limit, so an opening may always occur twice.
    share = times / len(texts) if times > 2 else 0.0
    return Check(f"{task}: most common opening", share, 0.015, offenders=[f"{times} times {' '.join(opening)!r}"])


def _check_stock_phrases(texts: Sequence[str], language: str) -> Check:
    plain = {text: text.lower().replace("’", "'") for text in texts}
    phrases = _stock_phrases(language)
    offenders = [text[:90] for text in texts if any(phrase in plain[text] for phrase in phrases)]
    return Check("stock phrases", len(offenders) / max(1, len(texts)), 0.01, offenders=offenders)


def _ends_in_question(record: Record) -> bool:
    return record.reference.rstrip(" \"'’”)").endswith("?")


def _capitalized_words(text: str) -> set[str]:
    return {word for name in re.findall(r"\b[A-Z][\w'’-]+", text) for word in words(name)}


def _ngrams(tokens: Sequence[Any], n: int) -> Iterable[tuple[Any, ...]]:
    return zip(*(tokens[start:] for start in range(n)), strict=False)


@cache
def _stock_phrases(language: str) -> tuple[str, ...]:
    lines = Path(__file__).with_name(_STOCK_PHRASES[language]).read_text("utf-8").splitlines()
    return tuple(line.strip() for line in lines if line.strip())
