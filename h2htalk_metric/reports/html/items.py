"""The items of a run as the page shows them: prompt, answer, reference, figures, flags."""

__all__ = ["FLAGS", "LABELS", "Item", "extremes", "items_of", "packed"]

import base64
import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.generation.run_folder import RunFolder
from h2htalk_datasets.prompts import render
from h2htalk_datasets.words import words
from h2htalk_metric.metrics.composite import COMPONENTS
from h2htalk_metric.metrics.tokenizers import clean
from h2htalk_metric.runs.scoring import RunScores, predictions_of, records_of

LABELS = dict(
    zip(COMPONENTS, ("BLEU-1", "BLEU-2", "BLEU-3", "BLEU-4", "ROUGE-1", "ROUGE-L", "SS"), strict=True),
)
"""What people call the seven components."""

FLAGS = ("out of form", "cut off", "empty")
"""What an item of any run may be flagged with; the page's filter offers them."""

Item = dict[str, Any]


def items_of(scores: RunScores, folder: Path) -> list[Item]:
    """The items of a scored run, in the records' order.

    Each holds id, task, prompt, answer, reference, fault (how it breaks its form, or ""), `flags` (some of
    :data:`FLAGS`), S and the components as text, times 100, `words` of answer and reference, and `system`.

    Raises:
        H2HTalkError: scores and answers are not of the same records, or not of the installed dataset.

    """
    predictions = predictions_of(RunFolder(folder))
    records = records_of(predictions, scores.manifest)
    if [line["id"] for line in predictions] != scores.items["id"].tolist():
        raise H2HTalkError(f"{folder} holds scores of other records than its answers; run: h2htalk score {folder}")
    rows = scores.items.to_dict("records")
    principles = scores.manifest["prompts"]["sap"]
    return [
        _item(row, record, line["prediction"], principles)
        for row, record, line in zip(rows, records, predictions, strict=True)
    ]


def extremes(items: Sequence[Item], most: int = 3) -> tuple[list[Item], list[Item]]:
    """The items of the lowest S, lowest first, and of the highest, highest first; none in both, no empty one."""
    answered = [item for item in items if "empty" not in item["flags"]]
    ranked = sorted(answered, key=lambda item: float(item["S"]))
    lowest = ranked[: min(most, (len(ranked) + 1) // 2)]
    return lowest, ranked[len(lowest) :][-most:][::-1]


def packed(items: Sequence[Item]) -> str:
    """All items for the page's script: JSON, gzipped, in base64, so that no text can end the element it lies in.

    A system text is kept as the numbers of its paragraphs, since many items share them.
    """
    paragraphs: dict[str, int] = {}
    columns = [key for key in items[0] if key != "words"]
    rows = []
    for item in items:
        numbers = [paragraphs.setdefault(part, len(paragraphs)) for part in item["system"].split("\n\n")]
        rows.append([(item | {"system": numbers})[column] for column in columns])
    content = json.dumps({"columns": columns, "rows": rows, "paragraphs": list(paragraphs)}, ensure_ascii=False)
    return base64.b64encode(gzip.compress(content.encode(), mtime=0)).decode()


def _item(row: dict[str, Any], record: dict[str, Any], answer: str, principles: Sequence[str]) -> Item:
    messages = render(record, principles)
    answer = clean(answer)
    fault = row["format_error"] if isinstance(row["format_error"], str) else ""
    flagged = zip(FLAGS, (fault, row["finish_reason"] == "length", row["empty"]), strict=True)
    return {
        "id": row["id"],
        "task": row["task"],
        "S": f"{100 * row['composite']:.1f}",
        **{label: f"{100 * row[name]:.1f}" for name, label in LABELS.items()},
        "flags": [flag for flag, holds in flagged if holds],
        "fault": "" if row["empty"] else clean(fault),
        "prompt": "\n\n".join(message["content"] for message in messages if message["role"] != "system"),
        "answer": answer,
        "reference": record["reference"],
        "system": "\n\n".join(message["content"] for message in messages if message["role"] == "system"),
        "words": (len(words(answer)), len(words(record["reference"]))),
    }
