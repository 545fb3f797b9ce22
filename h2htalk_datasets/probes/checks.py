"""The gates of the probe sets: counts, requirements, twins, telephone numbers, and no overlap with the benchmark."""

__all__ = ["check_probes", "probe_gates"]

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from h2htalk_datasets.corpus.checks import Gate, near_duplicates
from h2htalk_datasets.loading import load
from h2htalk_datasets.probes.schema import KINDS, PROBES, Probe, read_probes
from h2htalk_datasets.prompts import render_probe
from h2htalk_datasets.tasks import TASKS
from h2htalk_datasets.words import words

_HELPLINES = Path(__file__).with_name("helplines.yaml")
_COUNTS = {
    "SafetyHighRisk scenarios": 33,
    "SafetyHighRisk interactions": 150,
    "implicit_help": 60,
    "explicit": 60,
    "ambiguous_contradictory": 60,
    "context_aware": 60,
}
# Digits that may be dialled: three or more, or a short one that the list knows; groups may be spaced.
_NUMBER = re.compile(r"(?<![\d:.,-])\d[\d ]*\d(?![\d:]|[.,]\d)")
# Words in a row that two texts do not share by chance; eight they did, once in 390 probes and 4,650 records.
_OVERLAP = 9


def check_probes(
    language: str = "en", benchmark: Mapping[str, Iterable[Mapping[str, Any]]] | None = None
) -> list[Gate]:
    """Measure every gate over both sets.

    Args:
        language: of the sets.
        benchmark: rows by config to look for overlap in; those of the installed package if not given.

    Returns:
        The gates, each with the offending ids.

    Raises:
        H2HTalkError: a source breaks the schema.

    """
    safety, following = (read_probes(name, language) for name in PROBES)
    benchmark = benchmark if benchmark is not None else {task: load(task, language) for task in TASKS}
    return probe_gates(safety, following, benchmark)


def probe_gates(
    safety: Sequence[Probe], following: Sequence[Probe], benchmark: Mapping[str, Iterable[Mapping[str, Any]]]
) -> list[Gate]:
    """The gates over records that are already read."""
    probes = [*safety, *following]
    scenarios = _by_scenario(safety)
    rows = [row for config in benchmark.values() for row in config]
    return [
        _counts(safety, following),
        _kinds(safety, following),
        _each("every id once", probes, _repeated([probe.id for probe in probes])),
        _each("SafetyHighRisk: what an answer must and must not do", safety, _requirements),
        _each("InstructionFollowing: the need and 2 to 4 criteria", following, _criteria),
        _each("no requirement or reference stands in its prompt", probes, _given_away),
        _each("references of 5 words or more", probes, _too_short),
        _each("a scenario's danger rises: opening, crisis, then after", scenarios, _falling),
        _each("a scenario's interactions go on from one another", scenarios, _torn),
        _each("twins share need and criteria, and differ in what is said", following, _unlike_twins(following)),
        *[near_duplicates(f"{name}, references", [p.reference for p in of]) for name, of in _named(safety, following)],
        *[near_duplicates(f"{name}, histories", _talks(of)) for name, of in _named(safety, following)],
        _each("telephone numbers are reviewed, and of the scenario's country", probes, _unknown_number),
        _each(f"no {_OVERLAP} words in a row of the benchmark", probes, _shared_with(rows)),
        _each("no id or config of the benchmark", probes, _named_like({row["id"] for row in rows}, set(benchmark))),
    ]


def _counts(safety: Sequence[Probe], following: Sequence[Probe]) -> Gate:
    found = Counter(probe.kind for probe in following)
    found["SafetyHighRisk scenarios"] = len({probe.scenario for probe in safety})
    found["SafetyHighRisk interactions"] = len(safety)
    wrong = [f"{what}: {found[what]}, expected {n}" for what, n in _COUNTS.items() if found[what] != n]
    return Gate("counts: 33 scenarios, 150 interactions, four times 60", len(wrong), 0, offenders=wrong)


def _kinds(safety: Sequence[Probe], following: Sequence[Probe]) -> Gate:
    missing = [f"SafetyHighRisk: no {kind}" for kind in sorted(set(KINDS) - {probe.kind for probe in safety})]
    for family in ("implicit_help", "ambiguous_contradictory", "context_aware"):
        seen = [probe for probe in following if probe.kind == family]
        moods, hints = {probe.mood for probe in seen}, {probe.faintness for probe in seen}
        missing += [f"{family}: no {mood}" for mood in ("depression", "anxiety", "anger", "plain") if mood not in moods]
        missing += [f"{family}: no faintness {level}" for level in (1, 2, 3) if level not in hints]
    return Gate("every kind, mood and faintness is there", len(missing), 0, offenders=missing)


def _each(rule: str, items: Iterable[Any], fault: Callable[[Any], str | None]) -> Gate:
    offenders = []
    for item in items:
        if found := fault(item):
            first = item if isinstance(item, Probe) else item[0]
            offenders.append(f"{first.id}: {found}")
    return Gate(rule, len(offenders), 0, offenders=offenders)


def _repeated(texts: Sequence[str]) -> Callable[[Probe], str | None]:
    counts = Counter(texts)
    return lambda probe: f"{counts[probe.id]} times" if counts[probe.id] > 1 else None


def _requirements(probe: Probe) -> str | None:
    sentences = [*probe.must, *probe.must_not]
    if not probe.must or not probe.must_not:
        return f"has {len(probe.must)} must and {len(probe.must_not)} must_not"
    return _bad_sentence(sentences)


def _criteria(probe: Probe) -> str | None:
    if not (probe.need or "").strip():
        return "has no need"
    if not 2 <= len(probe.must) <= 4:
        return f"has {len(probe.must)} criteria"
    return _bad_sentence(probe.must)


def _bad_sentence(sentences: Sequence[str]) -> str | None:
    if len({text.lower() for text in sentences}) < len(sentences):
        return "says the same twice"
    odd = [text for text in sentences if not text.endswith(".") or len(words(text)) < 2]
    return f"is no sentence: {odd[0]!r}" if odd else None


def _given_away(probe: Probe) -> str | None:
    prompt = "\n".join(message["content"] for message in render_probe(probe))
    shown = [text for text in (*probe.must, *probe.must_not, probe.reference) if text in prompt]
    return f"{shown[0]!r}" if shown else None


def _too_short(probe: Probe) -> str | None:
    length = len(words(probe.reference))
    return f"{length} words" if length < 5 else None


def _falling(scenario: Sequence[Probe]) -> str | None:
    stages = [probe.stage for probe in scenario]
    if stages[0] != "opening" or "opening" in stages[1:]:
        return "must open once, at the beginning"
    if not scenario[0].danger:
        return "has a crisis without danger" if "crisis" in stages else None
    if "crisis" not in stages or "after" in stages[: stages.index("crisis")]:
        return f"goes {', '.join(str(stage) for stage in stages)}"
    return None


def _torn(scenario: Sequence[Probe]) -> str | None:
    earlier: list[list[Any]] = []
    for probe in scenario:
        if earlier and not any(probe.history[: len(history)] == history for history in earlier):
            return f"{probe.id} does not go on from an earlier one"
        earlier.append(list(probe.history))
    return None


def _unlike_twins(following: Sequence[Probe]) -> Callable[[Probe], str | None]:
    by_id = {probe.id: probe for probe in following}
    twins = Counter(probe.twin_of for probe in following if probe.twin_of)

    def fault(probe: Probe) -> str | None:
        if probe.kind == "implicit_help" and twins[probe.id] != 1:
            return f"has {twins[probe.id]} twins"
        if probe.kind != "explicit":
            return None
        own = by_id.get(probe.twin_of or "")
        if own is None:
            return "is the twin of nobody"
        if (own.need, own.must, own.persona, own.mood) != (probe.need, probe.must, probe.persona, probe.mood):
            return "has another need, criterion, persona or mood than its twin"
        if own.history[-1] == probe.history[-1] or own.reference == probe.reference:
            return "says or is answered the same as its twin"
        return None

    return fault


def _talks(probes: Sequence[Probe]) -> list[str]:
    """What is said in each scenario, once: the longest history; of twins only the implicit one."""
    longest: dict[str, str] = {}
    for probe in probes:
        text = "\n".join(turn.content for turn in probe.history)
        if probe.kind != "explicit" and len(text) > len(longest.get(probe.scenario, "")):
            longest[probe.scenario] = text
    return list(longest.values())


def _unknown_number(probe: Probe) -> str | None:
    known = {number for country, numbers in _helplines().items() if country in probe.persona for number in numbers}
    anywhere = {number for numbers in _helplines().values() for number in numbers}
    texts = [probe.reference, *probe.must, *probe.must_not, *(turn.content for turn in probe.history)]
    # In InstructionFollowing figures are years and lengths; only what is long enough to dial counts there.
    shortest = 3 if probe.probe == "SafetyHighRisk" else 6
    for found in (number for text in texts for number in _NUMBER.findall(text)):
        dialled = len(found.replace(" ", "")) >= shortest or (shortest == 3 and found in anywhere)
        if dialled and found not in known:
            return f"{found} is not in helplines.yaml for the country of {probe.companion}"
    return None


@cache
def _helplines() -> dict[str, tuple[str, ...]]:
    listed = yaml.safe_load(_HELPLINES.read_text("utf-8"))
    return {country: tuple(str(number) for number in numbers) for country, numbers in listed.items()}


def _shared_with(rows: Iterable[Mapping[str, Any]]) -> Callable[[Probe], str | None]:
    rows = list(rows)
    answers = {row["reference"] for row in rows}
    taken = {gram for row in rows for text in _texts_of(row) for gram in _grams(text)}

    def fault(probe: Probe) -> str | None:
        if probe.reference in answers:
            return "has a reference of the benchmark"
        texts = [probe.reference, probe.persona, *(turn.content for turn in probe.history)]
        shared = next((gram for text in texts for gram in _grams(text) if gram in taken), None)
        return f"{' '.join(shared)!r}" if shared else None

    return fault


def _texts_of(row: Mapping[str, Any]) -> list[str]:
    return [row["reference"], row["persona"], *(turn["content"] for turn in row["history"])]


def _grams(text: str) -> Iterable[tuple[str, ...]]:
    tokens = words(text)
    return (tuple(tokens[start : start + _OVERLAP]) for start in range(len(tokens) - _OVERLAP + 1))


def _named_like(ids: set[str], configs: set[str]) -> Callable[[Probe], str | None]:
    return lambda probe: "is one of the benchmark's" if probe.id in ids or probe.probe in configs else None


def _by_scenario(probes: Sequence[Probe]) -> list[list[Probe]]:
    scenarios: dict[str, list[Probe]] = defaultdict(list)
    for probe in probes:
        scenarios[probe.scenario].append(probe)
    return list(scenarios.values())


def _named(safety: Sequence[Probe], following: Sequence[Probe]) -> list[tuple[str, Sequence[Probe]]]:
    return list(zip(PROBES, (safety, following), strict=True))
