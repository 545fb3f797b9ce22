"""The figures of `h2htalk describe`, as PNG files."""

__all__ = ["draw"]

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.tasks import DIMENSIONS, NEEDS, TASKS

if TYPE_CHECKING:
    from h2htalk_datasets.corpus.statistics import Statistics

# Okabe and Ito's colours, which people who see colours differently can tell apart.
_COLOURS = {"Dialogue": "#0072B2", "Itinerary": "#E69F00", "Recollection": "#009E73"}
_STEPS = ["#56B4E9", "#0072B2", "#00304d"]
_NEED_COLOURS = ["#999999", "#0072B2", "#009E73", "#E69F00"]


def draw(statistics: "Statistics", texts: Sequence[str], names: set[str], out: Path) -> list[Path]:
    """Draw all figures into `out`; `names` are left out of the word cloud. Returns the files."""
    try:
        import matplotlib

        matplotlib.use("Agg")
        import matplotlib.pyplot as plt
    except ImportError:
        raise H2HTalkError("the figures need a few libraries more; run: pip install 'h2htalk[figures]'") from None
    plt.rcParams |= {"font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "figure.dpi": 130}
    figures = {
        "counts.png": _counts(plt, statistics),
        "lengths.png": _lengths(plt, statistics),
        "labels.png": _labels(plt, statistics),
        "verbs.png": _verbs(plt, statistics),
        "words.png": _cloud(plt, texts, names),
    }
    for name, figure in figures.items():
        figure.savefig(out / name, bbox_inches="tight")
        plt.close(figure)
    return [out / name for name in figures]


def _counts(plt: Any, statistics: "Statistics") -> Any:
    figure, axis = plt.subplots(figsize=(7, 3.2))
    tasks = list(statistics.counts)[::-1]
    numbers = [statistics.counts[task] for task in tasks]
    bars = axis.barh(tasks, numbers, color=[_COLOURS[TASKS[task].dimension] for task in tasks])
    axis.bar_label(bars, padding=3)
    axis.set_xlabel("records")
    handles = [plt.Rectangle((0, 0), 1, 1, color=_COLOURS[dimension]) for dimension in DIMENSIONS]
    axis.legend(handles, DIMENSIONS, frameon=False, loc="center right")
    return figure


def _lengths(plt: Any, statistics: "Statistics") -> Any:
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), sharey=True)
    tasks = list(statistics.counts)[::-1]
    shown = (
        ("words of the record's own prompt", statistics.prompt_words),
        ("words of the reference", statistics.reference_words),
    )
    for axis, (title, lengths) in zip(axes, shown, strict=True):
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


def _labels(plt: Any, statistics: "Statistics") -> Any:
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4))
    tasks = list(statistics.counts)[::-1]
    _stacked(left, tasks, statistics.labels["difficulty"], (1, 2, 3), _STEPS, "difficulty")
    dialogues = [task for task in tasks if statistics.labels["need"][task]]
    _stacked(right, dialogues, statistics.labels["need"], NEEDS, _NEED_COLOURS, "need")
    figure.tight_layout()
    return figure


def _stacked(axis: Any, tasks: list[str], counts: Any, values: Sequence[Any], colours: list[str], title: str) -> None:
    start = np.zeros(len(tasks))
    for value, colour in zip(values, colours, strict=True):
        shares = np.array([counts[task][value] / max(1, counts[task].total()) for task in tasks])
        axis.barh(tasks, shares, left=start, color=colour, label=str(value))
        start += shares
    axis.set_xlabel(f"share of records by {title}")
    axis.legend(frameon=False, ncols=len(values), loc="lower center", bbox_to_anchor=(0.5, 1.0))


def _verbs(plt: Any, statistics: "Statistics") -> Any:
    figure, axis = plt.subplots(figsize=(6, 5.2))
    pairs = statistics.pairs[:25][::-1]
    bars = axis.barh([" ".join(pair) for pair, _ in pairs], [n for _, n in pairs], color=_COLOURS["Dialogue"])
    axis.bar_label(bars, padding=3)
    axis.set_xlabel("times in the references")
    return figure


def _cloud(plt: Any, texts: Sequence[str], names: set[str]) -> Any:
    from wordcloud import STOPWORDS, WordCloud

    numbers = "one two three four five six seven eight nine ten eleven twelve twenty thirty forty half".split()
    dull = {"ll", "ve", "re", "s", "t", "don", "will", *numbers}
    stop = STOPWORDS | {name.lower() for name in names} | dull
    cloud = WordCloud(
        width=1200, height=600, background_color="white", colormap="viridis", stopwords=stop, random_state=1
    ).generate(" ".join(texts).replace("’", "'"))
    figure, axis = plt.subplots(figsize=(8, 4))
    axis.imshow(cloud)
    axis.axis("off")
    return figure
