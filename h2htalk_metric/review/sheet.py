"""Reviews as CSV: what was marked, a blank sheet for those who mark elsewhere, and the way back.

A text that a spreadsheet would take for a formula or a number gets an apostrophe before it, and loses it on import.
"""

__all__ = ["export_blank", "export_reviews", "import_reviews"]

import csv
import io
import re
from collections.abc import Iterable, Mapping
from hashlib import sha256
from pathlib import Path

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.files import write_atomically
from h2htalk_metric.judge.rubric import Rubric
from h2htalk_metric.reports.csv_text import csv_text, unescape_cell
from h2htalk_metric.review.database import Reviews, check_marks, check_name, check_note
from h2htalk_metric.review.items import Part, ReviewItem
from h2htalk_metric.review.protocol import order

_SHOWN = 20  # faults of a file that are named

_Row = tuple[str, str, dict[str, int], str]
"""Item, rater, marks, note."""


def export_reviews(folder: str | Path) -> Path:
    """Write ``reviews.csv``: what stands, a row per item and rater, the items in the order of the draw.

    Columns: id, task, rater, rubric and answer_hash (what was marked, and by what), a column per criterion, note,
    revision, time (UTC).
    """
    reviews = Reviews(folder)
    criteria = _criteria(reviews)
    rows = [
        {
            "id": item.id,
            "task": item.task,
            "rater": marking.rater,
            **_marked(item),
            **marking.marks,
            "note": marking.note,
            "revision": marking.revision,
            "time": marking.time,
        }
        for item, by_rater in zip(reviews.items.values(), reviews.markings().values(), strict=True)
        for marking in by_rater.values()
    ]
    head = ["id", "task", "rater", "rubric", "answer_hash", *criteria, "note", "revision", "time"]
    return _write(Path(folder) / "reviews.csv", head, rows)


def export_blank(folder: str | Path) -> tuple[Path, Path]:
    """Write ``review-sheet.csv``, to be filled in elsewhere, and ``review-rubrics.txt``, what the marks mean.

    The sheet has the columns that :func:`import_reviews` reads, and prompt, reference and answer; its order says
    nothing about why an item is there.
    """
    reviews = Reviews(folder)
    head = ["id", "task", "rater", "rubric", "answer_hash", *_criteria(reviews)]
    head += ["note", "prompt", "reference", "answer"]
    rows = [
        {
            "id": item.id,
            "task": item.task,
            **_marked(item),
            "prompt": _prompt(item.parts),
            "reference": item.reference,
            "answer": item.answer,
        }
        for item in map(reviews.item, order(reviews.items, reviews.settings["seed"], "sheet"))
    ]
    rubrics = {item.rubric.hash: item.rubric for item in reviews.items.values()}
    explained = Path(folder) / "review-rubrics.txt"
    write_atomically(explained, "\n\n".join(_explained(rubric) for rubric in rubrics.values()) + "\n")
    return _write(Path(folder) / "review-sheet.csv", head, rows), explained


def import_reviews(folder: str | Path, file: str | Path) -> tuple[int, int]:
    """Take in a filled sheet, or ``reviews.csv`` of a copy of this run; all of it or nothing.

    Rows without any mark are passed over. What is there already is not added again, see
    :meth:`h2htalk_metric.review.database.Reviews.add_all`.

    Returns:
        How many markings were added, how many were there.

    Raises:
        H2HTalkError: naming each fault by its row: unknown ids, another rubric, another run's answer, missing or
            impossible marks, names, an item and rater that stand in two rows.

    """
    reviews = Reviews(folder)
    rows: dict[tuple[str, str], tuple[int, _Row]] = {}
    faults = []
    for number, row in _read(Path(file), ["id", "rater", "rubric", "answer_hash", *_criteria(reviews)]):
        try:
            marking = _marking(reviews, row)
        except H2HTalkError as error:
            faults.append(f"row {number}: {error}")
        else:
            if marking:
                item, rater, *_ = marking
                first, _ = rows.setdefault((item, rater.casefold()), (number, marking))
                if first != number:
                    faults.append(f"row {number}: {rater}'s marks of {item} stand in row {first} already")
    if faults:
        more = [f"... and {len(faults) - _SHOWN} more"] if len(faults) > _SHOWN else []
        told = "\n  ".join([*faults[:_SHOWN], *more])
        raise H2HTalkError(f"{file} was not taken in, mend these rows:\n  {told}")
    return reviews.add_all(marking for _, marking in rows.values())


def _marking(reviews: Reviews, row: Mapping[str, str]) -> _Row | None:
    item = reviews.item(row["id"].strip())
    criteria = [criterion.name for criterion in item.rubric.criteria]
    foreign = [name for name in _criteria(reviews) if name not in criteria and row[name].strip()]
    if not any(row[name].strip() for name in criteria) and not foreign:
        return None
    if row["rubric"].strip() != item.rubric.hash:
        raise H2HTalkError(f"rubric {row['rubric'][:20]!r}, but {item.id} is marked by {item.rubric.hash}")
    if row["answer_hash"].strip() != _marked(item)["answer_hash"]:
        raise H2HTalkError(f"these are marks of another answer to {item.id} than this run's")
    if foreign:
        raise H2HTalkError(f"{', '.join(foreign)}: no criterion of {item.task}")
    marks = {name: _mark(row[name]) for name in criteria if row[name].strip()}
    return item.id, check_name(row["rater"]), check_marks(item.rubric, marks), check_note(row.get("note", ""))


def _marked(item: ReviewItem) -> dict[str, str]:
    """By what an item is marked, and what: other runs have answers to the same records."""
    return {"rubric": item.rubric.hash, "answer_hash": sha256(item.answer.encode()).hexdigest()[:12]}


def _mark(cell: str) -> int:
    """A whole number; spreadsheets may have made 4 into 4.0. What is none is left for the rubric to refuse."""
    text = cell.strip()
    whole = re.fullmatch(r"(-?\d{1,6})(?:[.,]0+)?", text)
    return int(whole[1]) if whole else text  # type: ignore[return-value]


def _read(file: Path, needed: list[str]) -> list[tuple[int, dict[str, str]]]:
    """The rows with their numbers as a spreadsheet shows them, the head being row 1."""
    try:
        text = file.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise H2HTalkError(f"can't read {file}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise H2HTalkError(f"{file} is not UTF-8; save it as CSV UTF-8") from None
    first = text.split("\n", 1)[0]
    try:
        rows = list(csv.reader(io.StringIO(text, newline=""), delimiter=max(",;\t", key=first.count), strict=False))
    except csv.Error as error:
        raise H2HTalkError(f"{file} can't be read as CSV ({error})") from None
    head = [name.strip() for name in rows[0]] if rows else []
    missing = [name for name in needed if name not in head]
    if missing:
        raise H2HTalkError(f"{file} has no column {', '.join(missing)}")
    filled = [(number, row) for number, row in enumerate(rows[1:], 2) if any(cell.strip() for cell in row)]
    return [
        (n, {name: unescape_cell(cell) for name, cell in zip(head, row + [""] * len(head), strict=False)})
        for n, row in filled
    ]


def _write(file: Path, head: list[str], rows: Iterable[Mapping[str, object]]) -> Path:
    write_atomically(file, csv_text(head, rows).encode("utf-8-sig"))  # the mark by which spreadsheets know UTF-8
    return file


def _criteria(reviews: Reviews) -> list[str]:
    """All criteria of all rubrics, each once."""
    return list(dict.fromkeys(c.name for item in reviews.items.values() for c in item.rubric.criteria))


def _prompt(parts: Iterable[Part]) -> str:
    return "\n\n".join(f"[{part.title}]\n{part.text}" for part in parts)


def _explained(rubric: Rubric) -> str:
    lines = [f"{rubric.name}, rubric {rubric.hash}"]
    for criterion in rubric.criteria:
        lines += ["", f"{criterion.name}: {criterion.question}"]
        lines += [f"  {level}  {meaning}" for level, meaning in criterion.levels.items()]
    return "\n".join(lines)
