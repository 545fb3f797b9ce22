"""Baselines of CompanionMemory that need no model, for the card.

- always abstain: "I don't know, you never told me." to every question;
- echo: the user's turns of the last session, said back;
- whole history: everything that was said, as an upper bound for what the patterns let through.

    python benchmarks/memory.py    # the table, to RESULTS.md
"""

from collections.abc import Mapping
from typing import Any

from results import write

from h2htalk_datasets.loading import load_memory
from h2htalk_datasets.memory.schema import FAMILIES
from h2htalk_metric.memory.results import measure_answers

Row = Mapping[str, Any]


def abstain(row: Row) -> str:
    """One sentence for every question."""
    return "I don't know, you never told me."


def echo(row: Row) -> str:
    """What the user said in the last session."""
    return " ".join(turn["content"] for turn in row["sessions"][-1]["turns"] if turn["role"] == "user")


def whole_history(row: Row) -> str:
    """Everything that the user has said."""
    return " ".join(t["content"] for session in row["sessions"] for t in session["turns"] if t["role"] == "user")


BASELINES = {"always abstain": abstain, "echo of the last session": echo, "the whole history": whole_history}


def cell(figure: Mapping[str, float] | None) -> str:
    """Per cent with the interval."""
    if figure is None:
        return "-"
    return f"{100 * figure['value']:.0f} ({100 * figure['low']:.0f} to {100 * figure['high']:.0f})"


def main() -> None:
    """Write the table."""
    rows = load_memory().to_list()
    lines = [
        "Right answers to CompanionMemory in per cent, with 95% intervals clustered by relationship "
        f"({len(rows)} questions).",
        "",
        f"| | all | {' | '.join(FAMILIES)} | outdated | invented |",
        "|---|" + "---:|" * (len(FAMILIES) + 3),
    ]
    for name, answer in BASELINES.items():
        measured = measure_answers(rows, {row["id"]: answer(row) for row in rows}, "arc")
        cells = [*(measured["accuracy"][key] for key in ("all", *FAMILIES)), measured["outdated"], measured["invented"]]
        lines.append(f"| {name} | {' | '.join(map(cell, cells))} |")
    write("CompanionMemory without a model (`memory.py`)", "\n".join(lines), ["h2htalk"])


if __name__ == "__main__":
    main()
