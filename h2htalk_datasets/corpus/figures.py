"""`h2htalk describe`: the statistics of the shipped corpus as Markdown tables and PNG figures."""

__all__ = ["describe"]

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from h2htalk_datasets.answer_format import strip_scaffold
from h2htalk_datasets.corpus.check import Check
from h2htalk_datasets.corpus.statistics import Statistics, check_published, measure
from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.languages import LANGUAGES
from h2htalk_datasets.loading import load
from h2htalk_datasets.tasks import DIMENSIONS, NEEDS, TASKS

# The colours of Okabe and Ito, which colour-blind readers can tell apart.
_COLOURS = {"Dialogue": "#0072B2", "Itinerary": "#E69F00", "Recollection": "#009E73"}
_LABEL_COLOURS = {
    "difficulty": ["#56B4E9", "#0072B2", "#00304d"],
    "need": ["#999999", "#0072B2", "#009E73", "#E69F00"],
}
_NUMBER_WORDS = "one two three four five six seven eight nine ten eleven twelve twenty thirty forty half".split()


def describe(out: Path, release: Path | None = None, language: str = "en") -> list[Path]:
    """Write ``statistics.md`` and the figures of the shipped corpus into a folder.

    Args:
        out: the folder; created if missing.
        release: a folder with the published references, to run the same checks over them.
        language: of the corpus. Only English has figures of verbs and of the words of feelings.

    Returns:
        The files written.

    Raises:
        H2HTalkError: the folder cannot be written, or the libraries for figures are not installed.

    """
    rows = [row for task in TASKS for row in load(task, language).to_list()]
    statistics = measure(rows)
    published = check_published(release) if release else []
    try:
        out.mkdir(parents=True, exist_ok=True)
        text = out / "statistics.md"
        text.write_text(_markdown(statistics, published), "utf-8")
    except OSError as error:
        raise H2HTalkError(f"can't write {out}: {error.strerror}") from None
    return [text, *_draw(statistics, rows, out)]


def _markdown(statistics: Statistics, published: Sequence[Check]) -> str:
    records, unit = statistics.records, LANGUAGES[statistics.language].unit
    parts = [
        "# Statistics of the corpus",
        f"{len(records)} records. {unit.capitalize()} are counted without labels, times and step numbers.",
        "## Counts and lengths",
        _lengths_table(records, unit),
        f"Prompt {unit} are those of the user message. The system message before it has a median of "
        f"{records['system_length'].median():.0f} {unit}.",
        "## Difficulty and need",
        _labels_table(records),
        "## Emotion",
        _table(["emotion", "records"], list(records["emotion"].value_counts().items())),
        "## Distinct words",
        _table(
            ["task", "distinct-1", "distinct-2", "distinct-3"],
            [[task, *(f"{value:.3f}" for value in values)] for task, values in statistics.distinct.items()],
        ),
        *(_verbs_section(statistics) if statistics.reference_pairs else []),
        "## Checks of the references",
        _checks_table(statistics.checks, published),
    ]
    return "\n\n".join(parts) + "\n"


def _verbs_section(statistics: Statistics) -> list[str]:
    return [
        "## Verbs and their nouns",
        "The first noun within four words after the verb, in the same clause. Instructions (as in the paper's Fig. 5) "
        "are the user's turns and the `instruction` column.",
        _pairs_table(statistics),
    ]


def _lengths_table(records: pd.DataFrame, unit: str) -> str:
    heads = ["task", "records", "Table 1", f"prompt {unit}: median", "95%", f"reference {unit}: median", "95%"]
    rows = []
    for task, own in records.groupby("task", observed=True):
        quantiles = own[["prompt_length", "reference_length"]].quantile([0.5, 0.95])
        rows.append([task, len(own), TASKS[task].count, *(f"{value:.0f}" for value in quantiles.T.stack())])
    return _table(heads, rows)


def _labels_table(records: pd.DataFrame) -> str:
    counts = _label_counts(records, "difficulty").join(_label_counts(records, "need")).fillna(0).astype(int)
    rows = [[task, *(n or "" for n in values)] for task, *values in counts.itertuples()]
    return _table(["task", *counts.columns], rows)


def _label_counts(records: pd.DataFrame, label: str) -> pd.DataFrame:
    """Records by task (rows; those with the label) and value of a label (columns)."""
    counts = pd.crosstab(records["task"], records[label])
    return counts[[value for value in (1, 2, 3, *NEEDS) if value in counts]]


def _pairs_table(statistics: Statistics) -> str:
    tops = [pairs.most_common(30) for pairs in (statistics.instruction_pairs, statistics.reference_pairs)]
    rows = [[" ".join(one), n, " ".join(other), m] for (one, n), (other, m) in zip(*tops, strict=False)]
    return _table(["in instructions", "times", "in references", "times"], rows)


def _checks_table(checks: Sequence[Check], published: Sequence[Check]) -> str:
    theirs = {check.rule: f"{check.value:.4g}" for check in published}
    heads = ["check", "limit", "this corpus", *(["published release"] if published else [])]
    rows = []
    for check in checks:
        limit = f"{'at least' if check.at_least else 'at most'} {check.limit:g}"
        other = [theirs.get(check.rule, "not measured")] if published else []
        rows.append([check.rule, limit, f"{check.value:.4g}", *other])
    return _table(heads, rows)


def _table(heads: Sequence[object], rows: Sequence[Sequence[object]]) -> str:
    lines = [heads, ["---", *["---:"] * (len(heads) - 1)], *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


def _draw(statistics: Statistics, rows: Sequence[Mapping[str, Any]], out: Path) -> list[Path]:
    try:
        import matplotlib

        matplotlib.use("Agg")
        import matplotlib.pyplot as plt
    except ImportError:
        raise H2HTalkError("the figures need more libraries; run: pip install 'h2htalk[figures]'") from None
    plt.rcParams |= {"font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "figure.dpi": 130}
    figures = {
        "counts.png": _draw_counts(plt, statistics.records),
        "lengths.png": _draw_lengths(plt, statistics.records, LANGUAGES[statistics.language].unit),
        "labels.png": _draw_labels(plt, statistics.records),
    }
    if statistics.language == "en":
        figures |= {"verbs.png": _draw_verbs(plt, statistics), "words.png": _draw_words(plt, rows)}
    for name, figure in figures.items():
        figure.savefig(out / name, bbox_inches="tight")
        plt.close(figure)
    return [out / name for name in figures]


def _draw_counts(plt: Any, records: pd.DataFrame) -> Any:
    figure, axis = plt.subplots(figsize=(7, 3.2))
    counts = records["task"].value_counts(sort=False)[::-1]
    bars = axis.barh(counts.index, counts, color=[_COLOURS[TASKS[task].dimension] for task in counts.index])
    axis.bar_label(bars, padding=3)
    axis.set_xlabel("records")
    handles = [plt.Rectangle((0, 0), 1, 1, color=_COLOURS[dimension]) for dimension in DIMENSIONS]
    axis.legend(handles, DIMENSIONS, frameon=False, loc="center right")
    return figure


def _draw_lengths(plt: Any, records: pd.DataFrame, unit: str) -> Any:
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), sharey=True)
    tasks = list(records["task"].cat.categories)[::-1]
    titles = {"prompt_length": f"{unit} of the user message", "reference_length": f"{unit} of the reference"}
    for axis, (column, title) in zip(axes, titles.items(), strict=True):
        lengths = [records.loc[records["task"] == task, column] for task in tasks]
        boxes = axis.boxplot(lengths, orientation="horizontal", patch_artist=True, widths=0.6, showfliers=False)
        for box, task in zip(boxes["boxes"], tasks, strict=True):
            box.set_facecolor(_COLOURS[TASKS[task].dimension])
        for line in boxes["medians"]:
            line.set_color("white")
        axis.set_yticks(range(1, len(tasks) + 1), tasks)
        axis.set_xlabel(title)
        axis.set_xlim(left=0)
    return figure


def _draw_labels(plt: Any, records: pd.DataFrame) -> Any:
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.4))
    for axis, (label, colours) in zip(axes, _LABEL_COLOURS.items(), strict=True):
        counts = _label_counts(records, label)[::-1]
        shares = counts.div(counts.sum(axis=1), axis=0)
        shares.plot.barh(stacked=True, ax=axis, color=colours, width=0.8, ylabel="")
        axis.set_xlabel(f"share of records by {label}")
        axis.legend(frameon=False, ncols=len(counts.columns), loc="lower center", bbox_to_anchor=(0.5, 1.0))
    figure.tight_layout()
    return figure


def _draw_verbs(plt: Any, statistics: Statistics) -> Any:
    figure, axes = plt.subplots(1, 2, figsize=(9, 5.2), sharex=True)
    panels = {"instructions": statistics.instruction_pairs, "references": statistics.reference_pairs}
    for axis, (title, pairs) in zip(axes, panels.items(), strict=True):
        top = pairs.most_common(25)[::-1]
        bars = axis.barh([" ".join(pair) for pair, _ in top], [n for _, n in top], color=_COLOURS["Dialogue"])
        axis.bar_label(bars, padding=3)
        axis.set_xlabel(f"times in the {title}")
        axis.xaxis.get_major_locator().set_params(integer=True)
    figure.tight_layout()
    return figure


def _draw_words(plt: Any, rows: Sequence[Mapping[str, Any]]) -> Any:
    from wordcloud import STOPWORDS, WordCloud

    names = {name.lower() for row in rows for name in re.findall(r"\b[A-Z]\w+", row["persona"])}
    text = " ".join(strip_scaffold(row["reference"]) for row in rows).replace("’", "'")
    stop = STOPWORDS | names | {"ll", "ve", "re", "s", "t", "don", "will", *_NUMBER_WORDS}
    cloud = WordCloud(
        width=1200, height=600, background_color="white", colormap="viridis", stopwords=stop, random_state=1
    ).generate(text)
    figure, axis = plt.subplots(figsize=(8, 4))
    axis.imshow(cloud)
    axis.axis("off")
    return figure
