"""Reviews as CSV: the saved marks, a blank sheet for raters who mark elsewhere, and the import of both.

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
from h2htalk_metric.review.marks import check_comment, check_marks, check_name
from h2htalk_metric.review.protocol import order
from h2htalk_metric.review.review_item import Part, ReviewItem
from h2htalk_metric.review.reviews import Reviews

_MAX_ERRORS = 20  # errors of a file that are listed

_Row = tuple[str, str, dict[str, int], str]
"""Item, rater, marks, comment."""


def export_reviews(folder: str | Path) -> Path:
    """Write ``reviews.csv``: the marks that count, one row per item and rater, in the order of the sample.

    Columns: id, task, rater, rubric and answer_hash (what was marked, and by what), one column per criterion, comment,
    revision, time (UTC), and inclusion_probability of the item in the sample (empty if it is unknown).

    Args:
        folder: a run folder with a review.

    """
    reviews = Reviews(folder)
    criteria = _criteria(reviews)
    rows = [
        {
            "id": item.id,
            "task": item.task,
            "rater": review.rater,
            **_hashes(item),
            **review.marks,
            "comment": review.comment,
            "revision": review.revision,
            "time": review.time,
            "inclusion_probability": item.probability,
        }
        for item, by_rater in zip(reviews.items.values(), reviews.latest().values(), strict=True)
        for review in by_rater.values()
    ]
    columns = ["id", "task", "rater", "rubric", "answer_hash", *criteria, "comment", "revision", "time"]
    columns.append("inclusion_probability")
    return _write(Path(folder) / "reviews.csv", columns, rows)


def export_blank(folder: str | Path) -> tuple[Path, Path]:
    """Write ``review-sheet.csv``, to be filled in elsewhere, and ``review-rubrics.txt``, which explains the marks.

    The sheet has the columns that :func:`import_reviews` reads, and prompt, reference and answer. Its order does not
    reveal why an item is in the review.

    Args:
        folder: a run folder with a review.

    """
    reviews = Reviews(folder)
    columns = ["id", "task", "rater", "rubric", "answer_hash", *_criteria(reviews)]
    columns += ["comment", "prompt", "reference", "answer"]
    rows = [
        {
            "id": item.id,
            "task": item.task,
            **_hashes(item),
            "prompt": _prompt(item.parts),
            "reference": item.reference,
            "answer": item.answer,
        }
        for item in map(reviews.item, order(reviews.items, reviews.settings["seed"], "sheet"))
    ]
    rubrics = {item.rubric.hash: item.rubric for item in reviews.items.values()}
    explanations = Path(folder) / "review-rubrics.txt"
    write_atomically(explanations, "\n\n".join(_explained(rubric) for rubric in rubrics.values()) + "\n")
    return _write(Path(folder) / "review-sheet.csv", columns, rows), explanations


def import_reviews(folder: str | Path, file: str | Path) -> tuple[int, int]:
    """Import a filled sheet, or ``reviews.csv`` of a copy of this run; all of it or nothing.

    Rows without marks are skipped. Marks that are there already are not added again, see
    :meth:`h2htalk_metric.review.reviews.Reviews.add_all`.

    Args:
        folder: a run folder with a review.
        file: CSV with commas, semicolons or tabs, UTF-8.

    Returns:
        How many marks (of one rater and item) were added, and how many were there.

    Raises:
        H2HTalkError: lists the errors by row: unknown ids, another rubric, another run's answer, missing or impossible
            marks, names, an item and rater in two rows.

    """
    reviews = Reviews(folder)
    rows: dict[tuple[str, str], tuple[int, _Row]] = {}
    errors = []
    for number, cells in _read(Path(file), ["id", "rater", "rubric", "answer_hash", *_criteria(reviews)]):
        try:
            row = _row(reviews, cells)
        except H2HTalkError as error:
            errors.append(f"row {number}: {error}")
            continue
        if row:
            item, rater, *_ = row
            first, _ = rows.setdefault((item, rater.casefold()), (number, row))
            if first != number:
                errors.append(f"row {number}: {rater}'s marks of {item} are in row {first} already")
    if errors:
        more = [f"... and {len(errors) - _MAX_ERRORS} more"] if len(errors) > _MAX_ERRORS else []
        lines = "\n  ".join([*errors[:_MAX_ERRORS], *more])
        raise H2HTalkError(f"nothing was imported from {file}; fix these rows:\n  {lines}")
    return reviews.add_all(row for _, row in rows.values())


def _row(reviews: Reviews, cells: Mapping[str, str]) -> _Row | None:
    item = reviews.item(cells["id"].strip())
    criteria = [criterion.name for criterion in item.rubric.criteria]
    foreign = [name for name in _criteria(reviews) if name not in criteria and cells[name].strip()]
    if not any(cells[name].strip() for name in criteria) and not foreign:
        return None
    if cells["rubric"].strip() != item.rubric.hash:
        raise H2HTalkError(f"rubric {cells['rubric'][:20]!r}, but {item.id} is marked by {item.rubric.hash}")
    if cells["answer_hash"].strip() != _hashes(item)["answer_hash"]:
        raise H2HTalkError(f"these are marks of another answer to {item.id} than this run's")
    if foreign:
        raise H2HTalkError(f"{', '.join(foreign)}: not a criterion of {item.task}")
    marks = {name: _mark(cells[name]) for name in criteria if cells[name].strip()}
    comment = cells.get("comment") or cells.get("note", "")  # the name in earlier versions
    return item.id, check_name(cells["rater"]), check_marks(item.rubric, marks), check_comment(comment)


def _hashes(item: ReviewItem) -> dict[str, str]:
    """What an item is marked by, and which answer: other runs have answers to the same records."""
    return {"rubric": item.rubric.hash, "answer_hash": sha256(item.answer.encode()).hexdigest()[:12]}


def _mark(cell: str) -> int:
    """An integer; spreadsheets may have made 4 into 4.0. Other text is left for the rubric to refuse."""
    text = cell.strip()
    integer = re.fullmatch(r"(-?\d{1,6})(?:[.,]0+)?", text)
    return int(integer[1]) if integer else text  # type: ignore[return-value]


def _read(file: Path, required: list[str]) -> list[tuple[int, dict[str, str]]]:
    """The rows with their numbers as a spreadsheet shows them; the header is row 1."""
    try:
        text = file.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise H2HTalkError(f"cannot read {file}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise H2HTalkError(f"{file} is not UTF-8; save it as CSV UTF-8") from None
    header = text.split("\n", 1)[0]
    try:
        rows = list(csv.reader(io.StringIO(text, newline=""), delimiter=max(",;\t", key=header.count), strict=False))
    except csv.Error as error:
        raise H2HTalkError(f"{file} cannot be read as CSV ({error})") from None
    columns = [name.strip() for name in rows[0]] if rows else []
    if missing := [name for name in required if name not in columns]:
        raise H2HTalkError(f"{file} has no column {', '.join(missing)}")
    filled = [(number, row) for number, row in enumerate(rows[1:], 2) if any(cell.strip() for cell in row)]
    return [
        (number, {name: unescape_cell(cell) for name, cell in zip(columns, row + [""] * len(columns), strict=False)})
        for number, row in filled
    ]


def _write(file: Path, columns: list[str], rows: Iterable[Mapping[str, object]]) -> Path:
    write_atomically(file, csv_text(columns, rows).encode("utf-8-sig"))  # spreadsheets recognise UTF-8 by the mark
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
