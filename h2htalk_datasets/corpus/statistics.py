"""`h2htalk describe`: the corpus in figures, as the paper shows its own and beyond.

Counts (Table 1), word cloud and verb-noun pairs, lengths; and what the paper does not show: difficulty, need and
emotion, duplicates, distinct-n and openings, on request beside the published release's, measured by the same code.
"""

__all__ = ["Statistics", "describe", "measure", "verb_noun_pairs"]

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from h2htalk_datasets.answer_format import strip_scaffold
from h2htalk_datasets.corpus.checks import Gate, distinct, reference_gates
from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.loading import load
from h2htalk_datasets.tasks import NEEDS, TASKS
from h2htalk_datasets.words import words

Rows = Mapping[str, Sequence[Mapping[str, Any]]]

_REACH = 4  # words after a verb in which its noun is looked for


@dataclass(frozen=True)
class Statistics:
    """What is measured of a corpus.

    Attributes:
        counts: records per config.
        reference_words: words of each reference, per config.
        prompt_words: words of each user message (the record's own part), per config.
        system_words: words of the system messages (persona and task), the median.
        labels: label (difficulty, need, emotion) to config to counts of its values.
        pairs: verb-noun pairs of all references with their counts, most frequent first.
        gates: what the gates measure of the references.
        distinct: distinct-1, -2, -3 per config, 0..1.

    """

    counts: dict[str, int]
    reference_words: dict[str, np.ndarray]
    prompt_words: dict[str, np.ndarray]
    system_words: float
    labels: dict[str, dict[str, Counter[Any]]]
    pairs: list[tuple[tuple[str, str], int]]
    gates: list[Gate]
    distinct: dict[str, tuple[float, float, float]]


def measure(rows: Rows) -> Statistics:
    """Measure loaded configs; `rows` maps config names to their records."""
    references = {task: [row["reference"] for row in rows[task]] for task in rows}
    bare = {task: [strip_scaffold(text) for text in texts] for task, texts in references.items()}
    return Statistics(
        counts={task: len(rows[task]) for task in rows},
        reference_words={task: np.array([len(words(text)) for text in texts]) for task, texts in bare.items()},
        prompt_words={
            task: np.array([len(words(row["messages"][1]["content"])) for row in rows[task]]) for task in rows
        },
        system_words=float(np.median([len(words(r["messages"][0]["content"])) for task in rows for r in rows[task]])),
        labels={
            label: {task: Counter(row[label] for row in rows[task] if row[label] is not None) for task in rows}
            for label in ("difficulty", "need", "emotion")
        },
        pairs=verb_noun_pairs([text for texts in bare.values() for text in texts]).most_common(30),
        gates=reference_gates(references),
        distinct={
            task: (distinct(texts, 1), distinct(texts, 2), distinct(texts, 3)) for task, texts in references.items()
        },
    )


def verb_noun_pairs(texts: Sequence[str]) -> Counter[tuple[str, str]]:
    """Count verbs with the noun that follows within four words, both as lemmas (English).

    Tags come from TextBlob's PatternTagger and lemmas from simplemma; both bring their data in the package.
    """
    simplemma, tagger = _linguists()
    dull = {"be", "have", "do", "go", "get", "will", "can", "s", "re", "ve", "ll", "d", "m", "let"}
    pairs: Counter[tuple[str, str]] = Counter()
    for text in texts:
        tagged = tagger.tag(text)
        for place, (verb, tag) in enumerate(tagged):
            if not tag.startswith("VB") or not verb.isalpha():
                continue
            action = simplemma.lemmatize(verb.lower(), lang="en")
            noun = next((w for w, t in tagged[place + 1 : place + 1 + _REACH] if t in ("NN", "NNS")), None)
            if noun and noun.isalpha() and len(noun) > 2 and action not in dull:
                pairs[action, simplemma.lemmatize(noun.lower(), lang="en")] += 1
    return pairs


def describe(out: Path, release: Path | None = None) -> list[Path]:
    """Write ``statistics.md`` and the figures of the shipped corpus into a folder.

    Args:
        out: the folder, made if missing.
        release: a folder with the published references, to be measured beside.

    Returns:
        The files written.

    Raises:
        H2HTalkError: the folder can't be written, or the figures' libraries are not installed.

    """
    from h2htalk_datasets.corpus.figures import draw

    rows = {task: load(task).to_list() for task in TASKS}
    statistics = measure(rows)
    try:
        out.mkdir(parents=True, exist_ok=True)
        text = out / "statistics.md"
        text.write_text(_markdown(statistics, _published(release) if release else None), "utf-8")
    except OSError as error:
        raise H2HTalkError(f"can't write {out}: {error.strerror}") from None
    texts = [strip_scaffold(row["reference"]) for task in rows for row in rows[task]]
    names = {part for task in rows for row in rows[task] for part in re.findall(r"\b[A-Z]\w+", row["persona"])}
    return [text, *draw(statistics, texts, names, out)]


def _published(folder: Path) -> list[Gate]:
    """The same gates over the published references; Chinese is cut by jieba."""
    from h2htalk_datasets.authors_release import authors_release

    configs = authors_release(folder).configs
    gates = reference_gates({task: list(configs[task]["reference"]) for task in configs}, cut=_chinese_words())
    return [gate for gate in gates if gate.rule != "stock phrases"]  # that list is English


def _chinese_words() -> Callable[[str], list[str]]:
    import logging

    import jieba

    jieba.setLogLevel(logging.WARNING)
    return lambda text: [token for token in jieba.lcut(text) if re.search(r"\w", token)]


def _linguists() -> tuple[Any, Any]:
    try:
        import simplemma
        from textblob.taggers import PatternTagger
    except ImportError:
        raise H2HTalkError("the figures need a few libraries more; run: pip install 'h2htalk[figures]'") from None
    return simplemma, PatternTagger()


def _markdown(statistics: Statistics, published: list[Gate] | None) -> str:
    total = sum(statistics.counts.values())
    parts = [
        "# The corpus in figures",
        f"{total} records. Words are counted without scaffold (labels, times, step numbers).",
        "## Counts and lengths",
        _table(
            ["config", "records", "Table 1", "words a prompt: median", "95%", "words a reference: median", "95%"],
            [
                [
                    task,
                    n,
                    TASKS[task].count,
                    *_spread(statistics.prompt_words[task]),
                    *_spread(statistics.reference_words[task]),
                ]
                for task, n in statistics.counts.items()
            ],
        ),
        "The prompt's words are those of the user message; the persona and task before it are a median of "
        f"{statistics.system_words:.0f} more.",
        "## Difficulty and need",
        _table(
            ["config", "1", "2", "3", *NEEDS],
            [
                [task, *(statistics.labels["difficulty"][task][d] for d in (1, 2, 3))]
                + [statistics.labels["need"][task][need] or "" for need in NEEDS]
                for task in statistics.counts
            ],
        ),
        "## Emotion",
        _table(["emotion", "records"], _summed(statistics.labels["emotion"]).most_common()),
        "## Distinct words",
        _table(
            ["config", "distinct-1", "distinct-2", "distinct-3"],
            [[task, *(f"{value:.3f}" for value in values)] for task, values in statistics.distinct.items()],
        ),
        "## Verbs and their nouns",
        _table(["verb", "noun", "times"], [[*pair, n] for pair, n in statistics.pairs]),
        "## What the gates measure of the references",
        _gate_table(statistics.gates, published),
    ]
    return "\n\n".join(parts) + "\n"


def _gate_table(gates: list[Gate], published: list[Gate] | None) -> str:
    theirs = {gate.rule: gate.figure for gate in published or []}
    heads = ["gate", "limit", "this corpus", *(["published release"] if published else [])]
    lines = []
    for gate in gates:
        limit = f"{'at most' if gate.high else 'at least'} {gate.limit:g}"
        other = [f"{theirs[gate.rule]:.4g}" if gate.rule in theirs else "not measured"] if published else []
        lines.append([gate.rule, limit, f"{gate.figure:.4g}", *other])
    return _table(heads, lines)


def _spread(lengths: np.ndarray) -> tuple[str, str]:
    return f"{np.median(lengths):.0f}", f"{np.percentile(lengths, 95):.0f}"


def _summed(by_task: Mapping[str, Counter[Any]]) -> Counter[Any]:
    return sum(by_task.values(), Counter())


def _table(heads: Sequence[object], lines: Sequence[Sequence[object]]) -> str:
    rows = [heads, ["---", *["---:"] * (len(heads) - 1)], *lines]
    return "\n".join(f"| {' | '.join(map(str, row))} |" for row in rows)
