"""`h2htalk describe`: the statistics of the shipped corpus as Markdown tables and PNG figures."""

__all__ = ["describe"]

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from h2htalk_datasets.answer_format import strip_scaffold
from h2htalk_datasets.corpus.checks import Check
from h2htalk_datasets.corpus.statistics import Statistics, check_published, measure
from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.loading import load
from h2htalk_datasets.tasks import DIMENSIONS, NEEDS, TASKS

# The colours of Okabe and Ito, which colour-blind readers can tell apart.
_COLOURS = {"Dialogue": "#0072B2", "Itinerary": "#E69F00", "Recollection": "#009E73"}
_DIFFICULTY_COLOURS = ["#56B4E9", "#0072B2", "#00304d"]
_NEED_COLOURS = ["#999999", "#0072B2", "#009E73", "#E69F00"]
_NUMBER_WORDS = "one two three four five six seven eight nine ten eleven twelve twenty thirty forty half".split()


def describe(out: Path, release: Path | None = None) -> list[Path]:
    """Write ``statistics.md`` and the figures of the shipped corpus into a folder.

    Args:
        out: the folder; created if missing.
        release: a folder with the published references, to run the same checks over them.

    Returns:
        The files written.

    Raises:
        H2HTalkError: the folder cannot be written, or the libraries for figures are not installed.

    """
    rows = {task: load(task).to_list() for task in TASKS}
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
    emotions = sum(statistics.labels["emotion"].values(), Counter())
    parts = [
        "# Statistics of the corpus",
        f"{sum(statistics.counts.values())} records. Words are counted without labels, times and step numbers.",
        "## Counts and lengths",
        _lengths_table(statistics),
        "Prompt words are those of the user message. The system message before it has a median of "
        f"{statistics.system_words:.0f} words.",
        "## Difficulty and need",
        _labels_table(statistics),
        "## Emotion",
        _table(["emotion", "records"], emotions.most_common()),
        "## Distinct words",
        _table(
            ["task", "distinct-1", "distinct-2", "distinct-3"],
            [[task, *(f"{value:.3f}" for value in values)] for task, values in statistics.distinct.items()],
        ),
        "## Verbs and their nouns",
        "The first noun within four words after the verb, in the same clause. Instructions (as in the paper's Fig. 5) "
        "are the user's turns and the `instruction` column.",
        _pairs_table(statistics),
        "## Checks of the references",
        _checks_table(statistics.checks, published),
    ]
    return "\n\n".join(parts) + "\n"


def _lengths_table(statistics: Statistics) -> str:
    heads = ["task", "records", "Table 1", "prompt words: median", "95%", "reference words: median", "95%"]
    rows = []
    for task, n in statistics.counts.items():
        lengths = (statistics.prompt_words[task], statistics.reference_words[task])
        percentiles = [f"{value:.0f}" for words in lengths for value in np.percentile(words, (50, 95))]
        rows.append([task, n, TASKS[task].count, *percentiles])
    return _table(heads, rows)


def _labels_table(statistics: Statistics) -> str:
    difficulty, need = statistics.labels["difficulty"], statistics.labels["need"]
    rows = [
        [task, *(difficulty[task][level] for level in (1, 2, 3)), *(need[task][value] or "" for value in NEEDS)]
        for task in statistics.counts
    ]
    return _table(["task", "1", "2", "3", *NEEDS], rows)


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


def _draw(statistics: Statistics, rows: Mapping[str, Sequence[Mapping[str, Any]]], out: Path) -> list[Path]:
    try:
        import matplotlib

        matplotlib.use("Agg")
        import matplotlib.pyplot as plt
    except ImportError:
        raise H2HTalkError("the figures need more libraries; run: pip install 'h2htalk[figures]'") from None
    plt.rcParams |= {"font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "figure.dpi": 130}
    figures = {
        "counts.png": _draw_counts(plt, statistics),
        "lengths.png": _draw_lengths(plt, statistics),
        "labels.png": _draw_labels(plt, statistics),
        "verbs.png": _draw_verbs(plt, statistics),
        "words.png": _draw_words(plt, rows),
    }
    for name, figure in figures.items():
        figure.savefig(out / name, bbox_inches="tight")
        plt.close(figure)
    return [out / name for name in figures]


def _draw_counts(plt: Any, statistics: Statistics) -> Any:
    figure, axis = plt.subplots(figsize=(7, 3.2))
    tasks = list(statistics.counts)[::-1]
    numbers = [statistics.counts[task] for task in tasks]
    bars = axis.barh(tasks, numbers, color=[_COLOURS[TASKS[task].dimension] for task in tasks])
    axis.bar_label(bars, padding=3)
    axis.set_xlabel("records")
    handles = [plt.Rectangle((0, 0), 1, 1, color=_COLOURS[dimension]) for dimension in DIMENSIONS]
    axis.legend(handles, DIMENSIONS, frameon=False, loc="center right")
    return figure


def _draw_lengths(plt: Any, statistics: Statistics) -> Any:
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), sharey=True)
    tasks = list(statistics.counts)[::-1]
    panels = (
        ("words of the user message", statistics.prompt_words),
        ("words of the reference", statistics.reference_words),
    )
    for axis, (title, lengths) in zip(axes, panels, strict=True):
        boxes = axis.boxplot(
            [lengths[task] for task in tasks], orientation="horizontal", patch_artist=True, widths=0.6, showfliers=False
        )
        for box, task in zip(boxes["boxes"], tasks, strict=True):
            box.set_facecolor(_COLOURS[TASKS[task].dimension])
        for line in boxes["medians"]:
            line.set_color("white")
        axis.set_yticks(range(1, len(tasks) + 1), tasks)
        axis.set_xlabel(title)
        axis.set_xlim(left=0)
    return figure


def _draw_labels(plt: Any, statistics: Statistics) -> Any:
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4))
    tasks = list(statistics.counts)[::-1]
    with_need = [task for task in tasks if statistics.labels["need"][task]]
    _stack(left, tasks, statistics.labels["difficulty"], dict(zip((1, 2, 3), _DIFFICULTY_COLOURS, strict=True)))
    _stack(right, with_need, statistics.labels["need"], dict(zip(NEEDS, _NEED_COLOURS, strict=True)))
    left.set_xlabel("share of records by difficulty")
    right.set_xlabel("share of records by need")
    figure.tight_layout()
    return figure


def _stack(axis: Any, tasks: Sequence[str], counts: Mapping[str, Counter[Any]], colours: Mapping[Any, str]) -> None:
    start = np.zeros(len(tasks))
    for value, colour in colours.items():
        shares = np.array([counts[task][value] / max(1, counts[task].total()) for task in tasks])
        axis.barh(tasks, shares, left=start, color=colour, label=str(value))
        start += shares
    axis.legend(frameon=False, ncols=len(colours), loc="lower center", bbox_to_anchor=(0.5, 1.0))


def _draw_verbs(plt: Any, statistics: Statistics) -> Any:
    figure, axes = plt.subplots(1, 2, figsize=(9, 5.2), sharex=True)
    panels = (("instructions", statistics.instruction_pairs), ("references", statistics.reference_pairs))
    for axis, (title, pairs) in zip(axes, panels, strict=True):
        top = pairs.most_common(25)[::-1]
        bars = axis.barh([" ".join(pair) for pair, _ in top], [n for _, n in top], color=_DIFFICULTY_COLOURS[1])
        axis.bar_label(bars, padding=3)
        axis.set_xlabel(f"times in the {title}")
        axis.xaxis.get_major_locator().set_params(integer=True)
    figure.tight_layout()
    return figure


def _draw_words(plt: Any, rows: Mapping[str, Sequence[Mapping[str, Any]]]) -> Any:
    from wordcloud import STOPWORDS, WordCloud

    everything = [row for task in rows for row in rows[task]]
    names = {name.lower() for row in everything for name in re.findall(r"\b[A-Z]\w+", row["persona"])}
    text = " ".join(strip_scaffold(row["reference"]) for row in everything).replace("’", "'")
    stop = STOPWORDS | names | {"ll", "ve", "re", "s", "t", "don", "will", *_NUMBER_WORDS}
    cloud = WordCloud(
        width=1200, height=600, background_color="white", colormap="viridis", stopwords=stop, random_state=1
    ).generate(text)
    figure, axis = plt.subplots(figsize=(8, 4))
    axis.imshow(cloud)
    axis.axis("off")
    return figure
