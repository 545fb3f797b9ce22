"""The reviews of a run in ``RUN/reviews.jsonl``: a header line with the sampled items, then one line per save.

The file is append-only, so no mark is ever lost. Writers take a lock, so several raters can work in several tabs and
processes. A killed process loses at most the save in flight. A line with ``draft`` holds marks that a rater has not
saved yet; they count nowhere.
"""

__all__ = ["Review", "Reviews"]

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path
from threading import RLock
from typing import Any

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.files import describe_write_errors
from h2htalk_metric.judge.rubric import Rubric
from h2htalk_metric.review.marks import check_comment, check_marks, check_name
from h2htalk_metric.review.review_item import SHEET_COLUMNS, ReviewItem
from h2htalk_metric.review.shared_log import SharedLog
from h2htalk_metric.review.upgrade import convert_database

_FORMAT = 2
_READABLE = (1, 2)  # items of the first one have no inclusion probabilities
Content = tuple[dict[str, int], str]
"""Marks and comment."""
Place = tuple[str, str]
"""Item and rater, the name in lower case."""


@dataclass(frozen=True)
class Review:
    """One rater's marks of one item, as saved.

    Attributes:
        item: its id.
        rater: the name as first written.
        marks: level per criterion.
        comment: the rater's remark, may be empty.
        revision: 1 for the first save of this rater and item.
        time: of the save, ISO 8601 in UTC.
        source: ``page`` or ``import``.

    """

    item: str
    rater: str
    marks: dict[str, int]
    comment: str
    revision: int
    time: str
    source: str

    @property
    def content(self) -> Content:
        """Marks and comment."""
        return self.marks, self.comment


class Reviews:
    """The reviews of a run; threads may share it.

    Args:
        folder: the run folder.

    Attributes:
        file: ``reviews.jsonl``.
        items: by id, in the order in which they were sampled.
        settings: how they were sampled; always contains `seed`.

    Raises:
        H2HTalkError: the folder has no reviews, or the file is damaged or of another version.

    """

    def __init__(self, folder: str | Path) -> None:
        if not self.exist(folder):
            raise H2HTalkError(f"{folder} has no reviews yet; run: h2htalk review {folder}")
        self._log = _log(folder)
        self.file = self._log.file
        header, *lines = self._log.read_new() or [{}]
        if header.get("format", 1) not in _READABLE:
            raise H2HTalkError(f"{self.file} was written by another version of h2htalk; move it away")
        try:
            rubrics = {key: Rubric.model_validate(rubric) for key, rubric in header["rubrics"].items()}
            self.settings: dict[str, Any] = header["settings"]
            self.items = {item["id"]: ReviewItem.from_json(item, rubrics) for item in header["items"]}
        except (ValueError, KeyError, TypeError):
            raise H2HTalkError(f"{self.file} is damaged; restore it or move it away") from None
        self._lock = RLock()
        self._saved: dict[Place, list[Review]] = {}
        self._drafts: dict[Place, Content] = {}
        self._names: dict[str, str] = {}  # of raters, as first saved
        self._apply(lines)

    @staticmethod
    def exist(folder: str | Path) -> bool:
        """Whether items were sampled in this folder. Converts ``reviews.sqlite`` of earlier versions.

        Raises:
            H2HTalkError: ``reviews.sqlite`` cannot be converted.

        """
        log, database = _log(folder), Path(folder) / "reviews.sqlite"
        if not log.file.exists() and database.exists():
            with log.locked():
                if not log.file.exists() and (lines := convert_database(database)):
                    log.create(lines)
                    database.rename(database.with_suffix(".sqlite.converted"))
        return log.file.exists()

    @classmethod
    def create(cls, folder: str | Path, items: Iterable[ReviewItem], settings: Mapping[str, Any]) -> "Reviews":
        """Fix the items of a review; they stay the same, whatever happens to the run.

        Args:
            folder: of the run; created if it does not exist.
            items: with unique ids; their rubrics may differ.
            settings: how they were sampled; `seed` is required and determines the raters' orders.

        Raises:
            H2HTalkError: there is a review already, or a criterion has the name of a column of the sheets.

        """
        items = list(items)
        if taken := {criterion.name for item in items for criterion in item.rubric.criteria} & SHEET_COLUMNS:
            raise H2HTalkError(f"a column of the sheets is called {min(taken)!r}; give the criterion another name")
        header = {
            "format": _FORMAT,
            "settings": dict(settings),
            "rubrics": {item.rubric.hash: item.rubric.model_dump() for item in items},
            "items": [item.to_json() for item in items],
        }
        log = _log(folder)
        with describe_write_errors(log.file):
            log.file.parent.mkdir(parents=True, exist_ok=True)
        cls.exist(folder)  # converts a review of an earlier version
        with log.locked():
            if log.file.exists():
                raise H2HTalkError(f"{log.file} has its items already; use it, or move it away to sample again")
            log.create([header])
        return cls(folder)

    def save(self, item: str, rater: str, marks: Mapping[str, int], comment: str = "") -> int:
        """Save a rater's marks; on disk when this returns. Marks that equal the last saved ones are not saved again.

        Returns:
            The number of the revision that counts.

        Raises:
            H2HTalkError: the item is unknown, or a mark is missing or not a level of the rubric.

        """
        content = check_marks(self.item(item).rubric, marks), check_comment(comment)
        place = _place(item, rater)
        with self._writing():
            if place not in self._saved or self._saved[place][-1].content != content:
                self._append([self._line(item, rater, content, "page")])
            elif self._drafts.get(place, content) != content:
                self._append([_draft(item, rater, content)])
            return len(self._saved[place])

    def add_all(self, rows: Iterable[tuple[str, str, Mapping[str, int], str]]) -> tuple[int, int]:
        """Add imported marks, unless they are there already.

        They are there if the rater's last import of the item, or any save since then, has them. So importing the same
        file again does not undo a correction on the page, and a file that another import replaced counts again.

        Args:
            rows: item, rater, marks, comment.

        Returns:
            How many were added, and how many were there.

        Raises:
            H2HTalkError: see :meth:`save`; nothing is added then.

        """
        checked = [
            (item, rater, (check_marks(self.item(item).rubric, marks), check_comment(comment)))
            for item, rater, marks, comment in rows
        ]
        with self._writing():
            lines = [
                self._line(item, rater, content, "import")
                for item, rater, content in checked
                if content not in _since_import(self._saved.get(_place(item, rater), []))
            ]
            self._append(lines)
        return len(lines), len(checked) - len(lines)

    def save_draft(self, item: str, rater: str, marks: Mapping[str, int], comment: str) -> None:
        """Store marks that are not saved yet; some may be missing."""
        content = check_marks(self.item(item).rubric, marks, partly=True), check_comment(comment)
        with self._writing():
            self._append([_draft(item, rater, content)])

    def current(self, item: str, rater: str) -> Content:
        """A rater's marks and comment of an item: the draft if there is one, else the last save, else nothing."""
        self._refresh()
        place = _place(self.item(item).id, rater)
        if place in self._drafts:
            return self._drafts[place]
        return self._saved[place][-1].content if place in self._saved else ({}, "")

    def unsaved(self, rater: str) -> set[str]:
        """The items that a rater saved and then changed without saving; the saved marks count."""
        self._refresh()
        saved = {item: self._saved.get(_place(item, rater), []) for item in self.items}
        return {item for item, history in saved.items() if history and history[-1].content != self.current(item, rater)}

    def history(self, item: str, rater: str) -> list[Review]:
        """All saves of a rater and item, the oldest first."""
        self._refresh()
        return list(self._saved.get(_place(item, rater), []))

    def latest(self) -> dict[str, dict[str, Review]]:
        """What counts: item to rater to the last save; raters in the order of their first save of the item."""
        self._refresh()
        latest: dict[str, dict[str, Review]] = {item: {} for item in self.items}
        for (item, _), history in self._saved.items():
            latest[item][history[-1].rater] = history[-1]
        return latest

    def rater_name(self, name: str) -> str:
        """A rater's name as first saved; upper and lower case are the same rater.

        Raises:
            H2HTalkError: it is empty, too long, or has characters that do not print.

        """
        self._refresh()
        name = check_name(name)
        return self._names.get(name.casefold(), name)

    def item(self, item: str) -> ReviewItem:
        """One item by its id.

        Raises:
            H2HTalkError: there is none.

        """
        if item not in self.items:
            raise H2HTalkError(f"no item {item!r} in this review")
        return self.items[item]

    @contextmanager
    def _writing(self) -> Iterator[None]:
        with self._lock, self._log.locked():
            self._refresh()
            yield

    def _append(self, lines: Sequence[Mapping[str, Any]]) -> None:
        self._log.append(lines)
        self._refresh()

    def _refresh(self) -> None:
        with self._lock:
            self._apply(self._log.read_new())

    def _apply(self, lines: Iterable[dict[str, Any]]) -> None:
        for line in lines:
            place = _place(line["item"], line["rater"])
            if line.pop("draft", False):
                self._drafts[place] = line["marks"], line["comment"]
            else:
                self._drafts.pop(place, None)
                self._names.setdefault(line["rater"].casefold(), line["rater"])
                self._saved.setdefault(place, []).append(Review(**line))

    def _line(self, item: str, rater: str, content: Content, source: str) -> dict[str, Any]:
        name = check_name(rater)
        name = self._names.get(name.casefold(), name)
        revision = len(self._saved.get(_place(item, rater), [])) + 1
        time = datetime.now(timezone.utc).isoformat(timespec="seconds")
        return asdict(Review(item, name, *content, revision, time, source))


def _log(folder: str | Path) -> SharedLog:
    return SharedLog(Path(folder) / "reviews.jsonl")


def _place(item: str, rater: str) -> Place:
    return item, check_name(rater).casefold()


def _draft(item: str, rater: str, content: Content) -> dict[str, Any]:
    marks, comment = content
    return {"item": item, "rater": check_name(rater), "marks": marks, "comment": comment, "draft": True}


def _since_import(history: Sequence[Review]) -> list[Content]:
    """The last imported content and those after it; all if none was imported."""
    imports = [place for place, one in enumerate(history) if one.source == "import"]
    return [one.content for one in history[imports[-1] if imports else 0 :]]
