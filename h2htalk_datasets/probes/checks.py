"""The checks of the probe sets: counts, requirements, explicit controls, telephone numbers, overlap with the tasks."""

__all__ = ["check_probe_sets", "check_probes"]

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from h2htalk_datasets.corpus.check import Check
from h2htalk_datasets.corpus.checks import check_near_duplicates
from h2htalk_datasets.files import parse_yaml
from h2htalk_datasets.loading import load
from h2htalk_datasets.probes.schema import KINDS, LOOKALIKE, read_probes
from h2htalk_datasets.prompts import render_probe
from h2htalk_datasets.schema import Probe
from h2htalk_datasets.tasks import PROBES, TASKS
from h2htalk_datasets.words import words

Rows = Mapping[str, Iterable[Mapping[str, Any]]]

_HELPLINES_FILE = Path(__file__).with_name("helplines.yaml")
_COUNTS = {
    "SafetyHighRisk dangerous scenarios": 27,
    "SafetyHighRisk harmless lookalikes": 6,
    "SafetyHighRisk interactions": 150,
    "implicit_help": 60,
    "explicit": 60,
    "ambiguous_contradictory": 60,
    "context_aware": 60,
}
_EMOTIONS = ("depression", "anxiety", "anger", "plain")
# Digits that someone could dial, also in groups with spaces between; not times, dates or decimal numbers.
_NUMBER = re.compile(r"(?<![\d:.,-])\d[\d ]*\d(?![\d:]|[.,]\d)")
# Words in a row that two texts do not share by chance. Eight were shared once in 390 probes and 4,650 records.
_OVERLAP = 9


def check_probes(language: str = "en", benchmark: Rows | None = None) -> list[Check]:
    """Read both probe sets and run all checks.

    Args:
        language: language of the sets.
        benchmark: rows by task, in which overlap is searched; the shipped rows if None.

    Returns:
        The checks, each with the ids of its offenders.

    Raises:
        H2HTalkError: a source violates the schema.

    """
    safety, instructions = (read_probes(name, language) for name in PROBES)
    benchmark = benchmark if benchmark is not None else {task: load(task, language) for task in TASKS}
    return check_probe_sets(safety, instructions, benchmark)


def check_probe_sets(safety: Sequence[Probe], instructions: Sequence[Probe], benchmark: Rows) -> list[Check]:
    """Run all checks over two probe sets; the schema of the sources has checked each entry already.

    Args:
        safety: the probes of SafetyHighRisk.
        instructions: the probes of InstructionFollowing.
        benchmark: rows by task, in which overlap is searched.

    """
    probes = [*safety, *instructions]
    scenarios = _by_scenario(safety)
    named = list(zip(PROBES, (safety, instructions), strict=True))
    overlap_problem = _overlap_problem([row for config in benchmark.values() for row in config])
    return [
        Check.no_offenders(
            "counts: 27 dangerous and 6 harmless scenarios, 150 interactions, four times 60",
            _wrong_counts(safety, instructions),
        ),
        Check.no_offenders("every kind, emotion and implicitness occurs", _missing_kinds(safety, instructions)),
        Check.no_offenders("every id occurs once", _repeated_ids(probes)),
        _check_each("requirements and criteria are different sentences", probes, _sentence_problem),
        _check_each("no requirement or reference is in its prompt", probes, _leak),
        _check_each("references of 5 words or more", probes, _length_problem),
        Check.no_offenders("danger rises in a scenario: opening, crisis, then after", _stage_problems(scenarios)),
        Check.no_offenders("each interaction of a scenario continues an earlier one", _history_problems(scenarios)),
        _check_each("a context-aware record has earlier turns", instructions, _context_problem),
        Check.no_offenders("an explicit control has another wording than its record", _control_problems(instructions)),
        *[check_near_duplicates(f"{name}, references", [p.reference for p in own]) for name, own in named],
        *[check_near_duplicates(f"{name}, histories", _longest_histories(own)) for name, own in named],
        _check_each("telephone numbers are reviewed and of the scenario's country", probes, _number_problem),
        _check_each(f"no {_OVERLAP} words in a row from the benchmark", probes, overlap_problem),
    ]


def _check_each(rule: str, probes: Iterable[Probe], problem_of: Callable[[Probe], str | None]) -> Check:
    problems = ((probe.id, problem_of(probe)) for probe in probes)
    return Check.no_offenders(rule, [f"{identity}: {problem}" for identity, problem in problems if problem])


def _wrong_counts(safety: Sequence[Probe], instructions: Sequence[Probe]) -> list[str]:
    counts = Counter(probe.kind for probe in instructions)
    lookalikes = {probe.scenario for probe in safety if probe.kind == LOOKALIKE}
    counts["SafetyHighRisk harmless lookalikes"] = len(lookalikes)
    counts["SafetyHighRisk dangerous scenarios"] = len({probe.scenario for probe in safety} - lookalikes)
    counts["SafetyHighRisk interactions"] = len(safety)
    return [f"{name}: {counts[name]}, expected {n}" for name, n in _COUNTS.items() if counts[name] != n]


def _missing_kinds(safety: Sequence[Probe], instructions: Sequence[Probe]) -> list[str]:
    missing = [f"SafetyHighRisk: no {kind}" for kind in sorted(set(KINDS) - {probe.kind for probe in safety})]
    for family in ("implicit_help", "ambiguous_contradictory", "context_aware"):
        own = [probe for probe in instructions if probe.kind == family]
        emotions, levels = {probe.emotion for probe in own}, {probe.implicitness for probe in own}
        missing += [f"{family}: no {emotion}" for emotion in _EMOTIONS if emotion not in emotions]
        missing += [f"{family}: no implicitness {level}" for level in (1, 2, 3) if level not in levels]
    return missing


def _repeated_ids(probes: Sequence[Probe]) -> list[str]:
    counts = Counter(probe.id for probe in probes)
    return [f"{identity}: {n} times" for identity, n in counts.items() if n > 1]


def _sentence_problem(probe: Probe) -> str | None:
    sentences = [*probe.must, *probe.must_not]
    if len({text.lower() for text in sentences}) < len(sentences):
        return "has the same sentence twice"
    fragments = [text for text in sentences if not text.endswith(".") or len(words(text)) < 2]
    return f"not a sentence: {fragments[0]!r}" if fragments else None


def _leak(probe: Probe) -> str | None:
    prompt = "\n".join(message["content"] for message in render_probe(probe))
    leaked = [text for text in (*probe.must, *probe.must_not, probe.reference) if text in prompt]
    return repr(leaked[0]) if leaked else None


def _length_problem(probe: Probe) -> str | None:
    length = len(words(probe.reference))
    return f"{length} words" if length < 5 else None


def _by_scenario(probes: Sequence[Probe]) -> dict[str, list[Probe]]:
    scenarios: dict[str, list[Probe]] = defaultdict(list)
    for probe in probes:
        scenarios[probe.scenario].append(probe)
    return scenarios


def _stage_problems(scenarios: Mapping[str, Sequence[Probe]]) -> Iterator[str]:
    for probes in scenarios.values():
        first, stages = probes[0].id, [probe.stage for probe in probes]
        if stages[0] != "opening" or "opening" in stages[1:]:
            yield f"{first}: must open once, at the beginning"
        elif not probes[0].danger:
            if "crisis" in stages:
                yield f"{first}: has a crisis without danger"
        elif "crisis" not in stages or "after" in stages[: stages.index("crisis")]:
            yield f"{first}: the stages are {', '.join(map(str, stages))}"


def _history_problems(scenarios: Mapping[str, Sequence[Probe]]) -> Iterator[str]:
    for probes in scenarios.values():
        for index, probe in enumerate(probes):
            earlier = [other.history for other in probes[:index]]
            if earlier and not any(probe.history[: len(history)] == history for history in earlier):
                yield f"{probe.id}: does not continue an earlier interaction"


def _context_problem(probe: Probe) -> str | None:
    # Without earlier turns there is no context, and the record would be one of the ambiguous ones.
    return "has no earlier turn" if probe.kind == "context_aware" and len(probe.history) < 2 else None


def _control_problems(instructions: Sequence[Probe]) -> Iterator[str]:
    by_id = {probe.id: probe for probe in instructions}
    for probe in instructions:
        control = by_id.get(probe.explicit_control or "")
        if control and (probe.history[-1] == control.history[-1] or probe.reference == control.reference):
            yield f"{probe.id}: its control has the same last turn or reference"


def _longest_histories(probes: Sequence[Probe]) -> list[str]:
    """The longest history of each scenario, without explicit controls."""
    longest: dict[str, str] = {}
    for probe in probes:
        text = "\n".join(turn.content for turn in probe.history)
        if probe.kind != "explicit" and len(text) > len(longest.get(probe.scenario, "")):
            longest[probe.scenario] = text
    return list(longest.values())


def _number_problem(probe: Probe) -> str | None:
    reviewed = {number for country, numbers in _helplines().items() if country in probe.persona for number in numbers}
    anywhere = {number for numbers in _helplines().values() for number in numbers}
    texts = [probe.reference, *probe.must, *probe.must_not, *(turn.content for turn in probe.history)]
    # In InstructionFollowing short numbers are years and lengths.
    is_safety = probe.probe == "SafetyHighRisk"
    for number in (number for text in texts for number in _NUMBER.findall(text)):
        can_be_dialled = len(number.replace(" ", "")) >= (3 if is_safety else 6) or (is_safety and number in anywhere)
        if can_be_dialled and number not in reviewed:
            return f"{number} is not in helplines.yaml for the country of {probe.companion}"
    return None


@cache
def _helplines() -> dict[str, tuple[str, ...]]:
    countries = parse_yaml(_HELPLINES_FILE.read_text("utf-8"))
    return {country: tuple(str(number) for number in numbers) for country, numbers in countries.items()}


def _overlap_problem(rows: Sequence[Mapping[str, Any]]) -> Callable[[Probe], str | None]:
    references = {row["reference"] for row in rows}
    grams: set[tuple[str, ...]] = set()
    for row in rows:
        for text in (row["reference"], row["persona"], *(turn["content"] for turn in row["history"])):
            grams.update(_grams(text))

    def problem_of(probe: Probe) -> str | None:
        if probe.reference in references:
            return "has a reference of the benchmark"
        texts = [probe.reference, probe.persona, *(turn.content for turn in probe.history)]
        shared = next((gram for text in texts for gram in _grams(text) if gram in grams), None)
        return repr(" ".join(shared)) if shared else None

    return problem_of


def _grams(text: str) -> Iterator[tuple[str, ...]]:
    tokens = words(text)
    return (tuple(tokens[start : start + _OVERLAP]) for start in range(len(tokens) - _OVERLAP + 1))
