"""Tables of a scored run: scores, components, answer length, format and how the run was made."""

__all__ = [
    "COMPONENT_LABELS",
    "by_dimension",
    "by_task",
    "components",
    "fact_errors",
    "format_followed",
    "lengths",
    "per_task",
    "provenance",
    "scores",
]

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from h2htalk_datasets.languages import LANGUAGES
from h2htalk_datasets.tasks import DIMENSIONS, TASKS
from h2htalk_metric.metrics.composite import COMPONENTS
from h2htalk_metric.metrics.facts import KINDS
from h2htalk_metric.metrics.signature import signature_line
from h2htalk_metric.reports import svg
from h2htalk_metric.reports.answers import Answer
from h2htalk_metric.reports.rendering import dimension_of, short_name
from h2htalk_metric.reports.table import (
    DETECTABLE,
    Bullets,
    Cell,
    Code,
    Column,
    Figure,
    Row,
    Section,
    Table,
    ends,
    numbers,
    shown,
)
from h2htalk_metric.runs.scoring import RunScores
from h2htalk_metric.stats.aggregate import AVERAGES, OVERALL
from h2htalk_metric.stats.intervals import design_effects, row_detectable

COMPONENT_LABELS = dict(
    zip(COMPONENTS, ("BLEU-1", "BLEU-2", "BLEU-3", "BLEU-4", "ROUGE-1", "ROUGE-L", "SS"), strict=True)
)
"""The usual names of the seven components."""

_CONFIG = Column("config", "text")
_CHARACTERS = (
    "Characters: the same composite with single characters in place of jieba's words, so that it does not depend on "
    "where words are cut. It is not part of S."
)
# What differs between two errors of one kind: numbers, and words of the answer.
_VARYING = re.compile(r"^\d+|\d+(?= as '|\. HH)|(?<=ascend at ).*|(?<=category ).*|(?<=importance ).*|: .*$", re.DOTALL)


def scores(run_scores: RunScores) -> Section:
    """S of every config, average and Overall, with intervals, design effects and a radar."""
    intervals = run_scores.intervals()
    axes = {(dimension_of(task), short_name(task)): intervals[task] for task in by_dimension(intervals)}
    radar = svg.radar({"S": axes}, "Radar of the configs; the same numbers as in the table")
    top = svg.axis_end(end for interval in intervals.values() for end in interval)
    characters = run_scores.character_row()
    columns = (
        _CONFIG,
        Column("n", narrow=False),
        Column("S"),
        *([Column("characters", narrow=False)] if characters else []),
        Column("95% interval", narrow=False),
        Column("design effect", narrow=False),
        Column("detectable", narrow=False),
        Column(svg.ticks(top), "plot"),
    )
    table = Table(
        "S times 100",
        columns,
        _score_rows(run_scores, top),
        notes=(
            "Design effect: variance of the mean over that of as many independent records; above 1, records of one "
            "relationship have similar scores.",
            DETECTABLE,
            *([_CHARACTERS] if characters else []),
        ),
        figure=Figure(radar, "S per config; the band is the 95% interval.") if radar else None,
    )
    intro = (
        "S is the composite of the paper (Eq. 2), times 100. The score of a config is the mean of its items, an "
        "average is the plain mean of its configs, and Overall is the mean of the eleven configs weighted by the "
        "counts of Table 1. Intervals are 95% (Student's t with cluster-robust standard errors; clusters are "
        "relationships). The records are this project's own, so these scores cannot be compared with Table 2 of "
        "the paper."
    )
    return Section("scores", "Scores", (intro, table))


def _score_rows(run_scores: RunScores, top: float) -> tuple[Row, ...]:
    """One row per cell of Table 2; `top` is the end of the plots' axis."""
    intervals, counts = run_scores.intervals(), run_scores.by_task()["n"]
    effects, detectable = design_effects(run_scores.cluster_sums), row_detectable(run_scores.cluster_sums)
    characters = run_scores.character_row()

    def row(cell: str, count: int | str, group: str = "", *, emphasized: bool = False) -> Row:
        interval = intervals.get(cell)
        cells = (
            cell,
            str(count),
            shown(interval.value if interval else None),
            *([shown(characters[cell])] if characters else []),
            ends(interval, ".1f"),
            shown(effects.get(cell), ".1f"),
            shown(detectable.get(cell), ".1f"),
            svg.whisker(interval, top) if interval else "",
        )
        return Row(cells, group, emphasized)

    rows = []
    for dimension, average in zip(DIMENSIONS, AVERAGES, strict=True):
        rows += [row(task, counts.get(task, 0), dimension) for task in TASKS if TASKS[task].dimension == dimension]
        rows.append(row(average, "", dimension, emphasized=True))
    rows.append(row(OVERALL, len(run_scores.items), emphasized=True))
    return tuple(rows)


def components(run_scores: RunScores) -> Section:
    """The seven components per config, and RecollectionSynthesis without its labels."""
    lines = run_scores.by_task()[[*COMPONENTS, "composite"]].to_dict("index")
    cells = {task: [shown(100 * value) for value in line.values()] for task, line in lines.items()}
    columns = numbers(*COMPONENT_LABELS.values(), "S")
    labels = run_scores.memory_labels()
    return Section(
        "components",
        "Components",
        (
            "S is the mean of its seven components, here times 100.",
            per_task("Components, times 100", columns, cells, shaded=True),
            *([_memory_labels(labels)] if labels else []),
        ),
    )


def lengths(answers: Sequence[Answer]) -> Section:
    """Words or characters of answers and references of one language, per config."""
    language = LANGUAGES[answers[0].language if answers else "en"]
    spreads = {
        task: (
            svg.distribution([answer.answer_length for answer in members]),
            svg.distribution([answer.reference_length for answer in members]),
        )
        for task, members in by_task(answers).items()
    }
    top = svg.axis_end(spread.p95 for pair in spreads.values() for spread in pair)
    cells = {}
    for task, (of_answers, of_references) in spreads.items():
        plot = svg.boxes(of_answers, of_references, top, TASKS[task].limits.get(language.code))
        cells[task] = (f"{of_answers.median:.0f}", f"{of_references.median:.0f}", plot)
    columns = (*numbers("answer", "reference"), Column(svg.ticks(top), "plot"))
    plot_note = (
        "Answers are coloured, references are grey: the dot is the median, the thick line the middle half, the thin "
        "line the middle 90%. The dashed line is the limit of the task."
    )
    intro = f"Median number of {language.unit} of the answers and of the references."
    table = per_task(f"{language.unit.capitalize()}, median", columns, cells, plot_note=plot_note)
    return Section("lengths", "Answer length", (intro, table))


def format_followed(run_scores: RunScores, answers: Sequence[Answer]) -> Section:
    """How many answers follow the format of their task, and the most frequent errors."""
    lines, answers_of = run_scores.by_task().to_dict("index"), by_task(answers)
    cells = {}
    for task, line in lines.items():
        errors = Counter(_VARYING.sub("…", answer.format_error) for answer in answers_of[task] if answer.format_error)
        cells[task] = (
            f"{100 * line['format_rate']:.0f}%",
            svg.bar(line["format_rate"]),
            str(int(line["truncated"])),
            str(int(line["empty"])),
            "; ".join(f"{times} × {error}" for error, times in errors.most_common(2)),
        )
    plot, errors_column = Column("", "plot"), Column("most frequent errors", "text")
    columns = (Column("followed"), plot, *numbers("cut off", "empty"), errors_column)
    intro = (
        "Share of answers that follow the format and the limit of their task; it is not part of S. Answers that "
        "are cut off reached the token limit of their task. Empty answers score 0 and are counted."
    )
    return Section("format", "Format", (intro, per_task("Format followed", columns, cells)))


def fact_errors(run_scores: RunScores) -> Section | None:
    """How many answers state a fact that contradicts their prompt; None for runs that were scored without the check."""
    items = run_scores.items
    if "fact_errors" not in items or not (items["language"] == "en").any():
        return None
    errors = items["fact_errors"].fillna("")
    cells = {}
    for task, rows in errors[items["language"] == "en"].groupby(items["task"]):
        kinds = [rows.str.contains(rf"(?:^|; ){kind}: ").mean() for kind in KINDS]
        cells[str(task)] = [f"{100 * share:.1f}%" for share in ((rows != "").mean(), *kinds)]
    intro = (
        "Share of answers that state a name, time, day or number that contradicts the prompt; it is not part of S. The "
        "check reads the surface only: it misses most subtle errors and flags some correct answers. Its precision and "
        "recall are on the metric card. Itinerary tasks that invent a day are checked for names only."
    )
    columns = numbers("any", *(f"{kind}s" for kind in KINDS))
    return Section("facts", "Facts", (intro, per_task("Answers that contradict the prompt", columns, cells)))


def provenance(manifest: Mapping[str, Any], *signatures: Mapping[str, Any]) -> Section:
    """How a run was made and scored."""
    generation, dataset = manifest["generation"], manifest["dataset"]
    limit = f", at most {dataset['limit']} per task" if dataset["limit"] else ""
    batch = f", batch size {generation['batch_size']}" if "batch_size" in generation else ""
    facts = (
        *_model_facts(manifest["model"]),
        f"records: {dataset['n']}{limit}" + (f", own data {dataset['data']['name']}" if "data" in dataset else ""),
        f"persona (SAP): {', '.join(manifest['prompts']['sap']) or 'none'}",
        f"temperature {generation['temperature']}, seed {generation['seed']}{batch}",
    )
    return Section(
        "making",
        "How it was made",
        (
            Bullets(facts),
            "The signature names every choice that changes a number. Results that were scored in different ways, or on "
            "different records, cannot be compared.",
            *(Code(signature_line(signature)) for signature in signatures),
        ),
    )


def per_task(title: str, columns: Sequence[Column], cells: Mapping[str, Sequence[Cell]], **options: Any) -> Table:
    """A table with one row per config, ordered and grouped by dimension.

    Args:
        title: of the table.
        columns: without the first one, the name of the config.
        cells: config name to the cells of these columns.
        options: other fields of :class:`Table`.

    """
    rows = tuple(Row((task, *cells[task]), dimension_of(task)) for task in by_dimension(cells))
    return Table(title, (_CONFIG, *columns), rows, **options)


def by_dimension(tasks: Mapping[str, Any]) -> list[str]:
    """Those of the tasks that are configs, ordered by dimension."""
    return [task for dimension in DIMENSIONS for task in TASKS if TASKS[task].dimension == dimension and task in tasks]


def by_task(answers: Sequence[Answer]) -> dict[str, list[Answer]]:
    """The answers of each config, ordered by language and dimension; configs may have the suffix of a language."""
    groups: dict[str, list[Answer]] = {}
    for answer in answers:
        groups.setdefault(answer.task, []).append(answer)
    suffixes = [language.config_suffix for language in LANGUAGES.values()]
    configs = [task + suffix for suffix in suffixes for task in by_dimension(TASKS)]
    return {config: groups[config] for config in configs if config in groups}


def _memory_labels(labels: Mapping[str, Any]) -> str:
    text = (
        "RecollectionSynthesis without its labels, which alone raise the score of a wrong answer: "
        f"S of the contents {100 * labels['content_composite']:.2f}"
    )
    if labels["compared"]:
        text += (
            f"; over the {labels['compared']} answers whose memories can be compared, category agreement "
            f"{100 * labels['category_agreement']:.0f}%, mean difference of importance {labels['importance_error']:.2f}"
        )
    return f"{text}."


def _model_facts(model: Mapping[str, Any]) -> list[str]:
    """Facts of the manifest; a server does not tell more than the model's name."""
    place = model["dtype"] if "dtype" in model else f"behind {model['server']}" if "server" in model else "unknown"
    facts = [f"model: {model['name']}, revision {model.get('revision')}, {place}"]
    if model.get("adapter"):
        facts.append(f"LoRA adapter: {model['adapter']}")
    return facts
