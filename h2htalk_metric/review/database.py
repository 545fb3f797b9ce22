"""RUN/reviews.sqlite: the items as they were drawn, and every mark that was ever given.

A save is one transaction, on disk when it returns, and appends a revision; the file itself refuses to change or drop
one. Write-ahead logging lets several raters work at once, on one machine. What a rater has marked but not yet saved
is kept as a draft.
"""

__all__ = ["Marking", "Reviews", "check_marks", "check_name", "check_note"]

import json
import sqlite3
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_metric.judge.rubric import Rubric
from h2htalk_metric.review.items import SHEET_COLUMNS, Part, ReviewItem

_FORMAT = 1
_NAME_LENGTH, _NOTE_LENGTH = 40, 4000
_SCHEMA = """
CREATE TABLE settings (body TEXT NOT NULL);
CREATE TABLE rubrics (hash TEXT PRIMARY KEY, body TEXT NOT NULL);
CREATE TABLE items (
    id TEXT PRIMARY KEY, task TEXT NOT NULL, parts TEXT NOT NULL, reference TEXT NOT NULL, answer TEXT NOT NULL,
    rubric TEXT NOT NULL REFERENCES rubrics, kind TEXT NOT NULL
);
CREATE TABLE raters (key TEXT PRIMARY KEY, name TEXT NOT NULL);
CREATE TABLE revisions (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    item TEXT NOT NULL REFERENCES items, rater TEXT NOT NULL REFERENCES raters, revision INTEGER NOT NULL,
    marks TEXT NOT NULL, note TEXT NOT NULL, time TEXT NOT NULL, source TEXT NOT NULL,
    UNIQUE (item, rater, revision)
);
CREATE TRIGGER revisions_stay BEFORE UPDATE ON revisions BEGIN SELECT RAISE(ABORT, 'revisions are append-only'); END;
CREATE TRIGGER revisions_last BEFORE DELETE ON revisions BEGIN SELECT RAISE(ABORT, 'revisions are append-only'); END;
CREATE TABLE drafts (
    item TEXT NOT NULL REFERENCES items, rater TEXT NOT NULL REFERENCES raters,
    marks TEXT NOT NULL, note TEXT NOT NULL, PRIMARY KEY (item, rater)
);
"""


@dataclass(frozen=True)
class Marking:
    """One rater's marks of one item, as they stand or as they once stood.

    Attributes:
        item: its id.
        rater: the name as first given.
        marks: criterion to level.
        note: the rater's remark, may be empty.
        revision: 1 for the first save.
        time: of the save, ISO 8601 in UTC.
        source: ``page`` or ``import``.

    """

    item: str
    rater: str
    marks: dict[str, int]
    note: str
    revision: int
    time: str
    source: str


class Reviews:
    """The reviews of a run.

    Attributes:
        file: the database.
        items: by id, in the order in which they were drawn.
        settings: how they were drawn; `seed` is always there.

    Raises:
        H2HTalkError: there are none in the folder, or the file is not one of reviews.

    """

    def __init__(self, folder: str | Path) -> None:
        self.file = _file(folder)
        if not self.exist(folder):
            raise H2HTalkError(f"{folder} has no reviews yet; run: h2htalk review {folder}")
        with self._transaction() as base:
            self.settings: dict[str, Any] = json.loads(base.execute("SELECT body FROM settings").fetchone()[0])
            rubrics = {
                row["hash"]: Rubric.model_validate_json(row["body"]) for row in base.execute("SELECT * FROM rubrics")
            }
            self.items = {
                row["id"]: ReviewItem(
                    row["id"],
                    row["task"],
                    tuple(Part(*part) for part in json.loads(row["parts"])),
                    row["reference"],
                    row["answer"],
                    rubrics[row["rubric"]],
                    row["kind"],
                )
                for row in base.execute("SELECT * FROM items ORDER BY rowid")
            }

    @staticmethod
    def exist(folder: str | Path) -> bool:
        """Whether items were drawn in this folder.

        Raises:
            H2HTalkError: its ``reviews.sqlite`` is something else, or of another version.

        """
        if not _file(folder).exists():
            return False
        try:
            with _connected(_file(folder)) as base:
                found = base.execute("PRAGMA user_version").fetchone()[0]
        except sqlite3.DatabaseError as error:
            raise H2HTalkError(f"{_file(folder)} can't be read ({error}); restore it or move it away") from None
        if found not in (0, _FORMAT):
            raise H2HTalkError(f"{_file(folder)} was written by another version of h2htalk; move it away")
        return found == _FORMAT

    @classmethod
    def create(cls, folder: str | Path, items: Iterable[ReviewItem], settings: Mapping[str, Any]) -> "Reviews":
        """Fix the items of a review; from then on they stay, whatever happens to the run.

        Args:
            folder: of the run.
            items: with unique ids; their rubrics may differ.
            settings: how they were drawn; `seed` is needed, and shuffles the raters' orders.

        Raises:
            H2HTalkError: there are items already, or a criterion is called what a column of the sheets is called.

        """
        items = list(items)
        taken = {criterion.name for item in items for criterion in item.rubric.criteria} & SHEET_COLUMNS
        if taken:
            raise H2HTalkError(f"a column of the sheets is called {min(taken)!r}; give the criterion another name")
        Path(folder).mkdir(parents=True, exist_ok=True)
        rubrics = {item.rubric.hash: item.rubric.model_dump_json() for item in items}
        rows = [(i.id, i.task, json.dumps(i.parts), i.reference, i.answer, i.rubric.hash, i.group) for i in items]
        with _connected(_file(folder)) as base:
            base.execute("PRAGMA journal_mode=WAL")
            base.execute("BEGIN IMMEDIATE")
            if base.execute("PRAGMA user_version").fetchone()[0]:  # another process was first
                raise H2HTalkError(f"{_file(folder)} has its items already; use it, or move it away to draw anew")
            for statement in _SCHEMA.split(";\n"):
                base.execute(statement)
            base.execute("INSERT INTO settings VALUES (?)", [json.dumps(dict(settings))])
            base.executemany("INSERT INTO rubrics VALUES (?, ?)", rubrics.items())
            base.executemany("INSERT INTO items VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
            base.execute(f"PRAGMA user_version={_FORMAT}")
            base.execute("COMMIT")
        return cls(folder)

    def enter(self, name: str) -> str:
        """Take a rater's name down, and return it as it was first given; upper and lower case are the same rater."""
        name = check_name(name)
        with self._transaction() as base:
            return _enter(base, name)

    def save(self, item: str, rater: str, marks: Mapping[str, int], note: str = "") -> int:
        """Append a revision unless it says what the last one says, and drop the draft.

        Returns:
            The number of the revision that stands.

        Raises:
            H2HTalkError: the item is unknown, or a mark is missing or no level of the rubric.

        """
        marks, note = check_marks(self.item(item).rubric, marks), check_note(note)
        with self._transaction() as base:
            rater = _enter(base, check_name(rater))
            base.execute("DELETE FROM drafts WHERE item = ? AND rater = ?", [item, _key(rater)])
            last = _revisions(base, item, rater)[-1:]
            if last and (last[0].marks, last[0].note) == (marks, note):
                return last[0].revision
            return _append(base, item, rater, marks, note, "page")

    def add_all(self, rows: Iterable[tuple[str, str, Mapping[str, int], str]]) -> tuple[int, int]:
        """Append imported markings, all or none, leaving out what is there already.

        That is what the rater's last import of the item said or any save since then: so a correction on the page
        is not undone by importing the same file again, and a file that was overruled by another one counts again.

        Args:
            rows: item, rater, marks, note.

        Returns:
            How many were added, how many were there.

        """
        added = present = 0
        with self._transaction() as base:
            for item, name, given, remark in rows:
                rater = _enter(base, check_name(name))
                marks, note = check_marks(self.item(item).rubric, given), check_note(remark)
                if any((old.marks, old.note) == (marks, note) for old in _since_import(_revisions(base, item, rater))):
                    present += 1
                else:
                    _append(base, item, rater, marks, note, "import")
                    added += 1
        return added, present

    def keep_draft(self, item: str, rater: str, marks: Mapping[str, int], note: str) -> None:
        """Keep marks that are not saved yet; some may be missing."""
        marks = check_marks(self.item(item).rubric, marks, partly=True)
        with self._transaction() as base:
            rater = _enter(base, check_name(rater))
            values = [item, _key(rater), json.dumps(marks), check_note(note)]
            base.execute("INSERT OR REPLACE INTO drafts VALUES (?, ?, ?, ?)", values)

    def own(self, item: str, rater: str) -> tuple[dict[str, int], str]:
        """A rater's marks and note of an item: the draft if there is one, else what was saved last, else nothing."""
        with self._transaction() as base:
            draft = base.execute(
                "SELECT marks, note FROM drafts WHERE item = ? AND rater = ?", [self.item(item).id, _key(rater)]
            ).fetchone()
            if draft:
                return json.loads(draft["marks"]), draft["note"]
            last = _revisions(base, item, rater)[-1:]
        return (last[0].marks, last[0].note) if last else ({}, "")

    def changed(self, rater: str) -> set[str]:
        """The items that a rater has saved and since then marked otherwise without saving; what was saved counts."""
        with self._transaction() as base:
            drafts = base.execute("SELECT item, marks, note FROM drafts WHERE rater = ?", [_key(rater)]).fetchall()
            last = {row["item"]: _revisions(base, row["item"], rater)[-1:] for row in drafts}
        return {
            row["item"]
            for row in drafts
            for saved in last[row["item"]]
            if (saved.marks, saved.note) != (json.loads(row["marks"]), row["note"])
        }

    def history(self, item: str, rater: str) -> list[Marking]:
        """All revisions of a rater's marks of an item, the oldest first."""
        with self._transaction() as base:
            return _revisions(base, item, rater)

    def markings(self) -> dict[str, dict[str, Marking]]:
        """What stands: item to rater to the last revision; raters in the order in which they first saved the item."""
        found: dict[str, dict[str, Marking]] = {identity: {} for identity in self.items}
        with self._transaction() as base:
            for row in base.execute("SELECT * FROM revisions JOIN raters ON rater = key ORDER BY number"):
                found[row["item"]][row["name"]] = _marking(row)
        return found

    def item(self, identity: str) -> ReviewItem:
        """One item.

        Raises:
            H2HTalkError: there is none of that id.

        """
        if identity not in self.items:
            raise H2HTalkError(f"no item {identity!r} in this review")
        return self.items[identity]

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with _connected(self.file) as base:
            base.execute("BEGIN IMMEDIATE")
            yield base
            base.execute("COMMIT")


def check_name(name: str) -> str:
    """A rater's name without needless white space.

    Raises:
        H2HTalkError: it is empty, too long, or has signs that don't print.

    """
    clean = unicodedata.normalize("NFC", " ".join(name.split()))
    if not 0 < len(clean) <= _NAME_LENGTH or not clean.isprintable():
        raise H2HTalkError(f"a rater's name has 1 to {_NAME_LENGTH} printable characters; got {name[:60]!r}")
    return clean


def check_marks(rubric: Rubric, marks: Mapping[str, int], *, partly: bool = False) -> dict[str, int]:
    """Marks in the rubric's order.

    Args:
        rubric: of the item.
        marks: criterion to level.
        partly: allow criteria without a mark.

    Raises:
        H2HTalkError: a criterion is unknown or has no mark, or a mark is no level of it; each is named.

    """
    faults = [f"{name}: no criterion of the rubric" for name in marks.keys() - {c.name for c in rubric.criteria}]
    for criterion in rubric.criteria:
        mark = marks.get(criterion.name)
        if mark is None and not partly:
            faults.append(f"{criterion.name}: no mark")
        elif mark is not None and (type(mark) is not int or mark not in criterion.levels):
            levels = ", ".join(map(str, criterion.levels))
            faults.append(f"{criterion.name}: {str(mark)[:20]!r} is none of the levels {levels}")
    if faults:
        raise H2HTalkError("; ".join(faults))
    return {criterion.name: marks[criterion.name] for criterion in rubric.criteria if criterion.name in marks}


def check_note(note: str) -> str:
    """A note without the white space around it, or a refusal."""
    if not isinstance(note, str) or len(note) > _NOTE_LENGTH:
        raise H2HTalkError(f"a note is a text of at most {_NOTE_LENGTH} characters")
    return note.strip()


def _file(folder: str | Path) -> Path:
    return Path(folder) / "reviews.sqlite"


@contextmanager
def _connected(file: Path) -> Iterator[sqlite3.Connection]:
    base = sqlite3.connect(file, timeout=30, isolation_level=None)
    base.row_factory = sqlite3.Row
    try:
        base.execute("PRAGMA synchronous=FULL")
        base.execute("PRAGMA foreign_keys=ON")
        yield base
    finally:
        base.close()  # what was not committed is rolled back


def _key(name: str) -> str:
    return check_name(name).casefold()


def _enter(base: sqlite3.Connection, name: str) -> str:
    base.execute("INSERT OR IGNORE INTO raters VALUES (?, ?)", [_key(name), name])
    return str(base.execute("SELECT name FROM raters WHERE key = ?", [_key(name)]).fetchone()["name"])


def _revisions(base: sqlite3.Connection, item: str, rater: str) -> list[Marking]:
    rows = base.execute(
        "SELECT * FROM revisions JOIN raters ON rater = key WHERE item = ? AND rater = ? ORDER BY revision",
        [item, _key(rater)],
    )
    return [_marking(row) for row in rows]


def _since_import(revisions: list[Marking]) -> list[Marking]:
    """The last imported revision and those after it; all where none was imported."""
    imports = [place for place, one in enumerate(revisions) if one.source == "import"]
    return revisions[imports[-1] :] if imports else revisions


def _append(base: sqlite3.Connection, item: str, rater: str, marks: Mapping[str, int], note: str, source: str) -> int:
    revision = len(_revisions(base, item, rater)) + 1
    time = datetime.now(timezone.utc).isoformat(timespec="seconds")
    base.execute(
        "INSERT INTO revisions (item, rater, revision, marks, note, time, source) VALUES (?, ?, ?, ?, ?, ?, ?)",
        [item, _key(rater), revision, json.dumps(marks), note, time, source],
    )
    return revision


def _marking(row: sqlite3.Row) -> Marking:
    return Marking(
        row["item"],
        row["name"],
        json.loads(row["marks"]),
        row["note"],
        row["revision"],
        row["time"],
        row["source"],
    )
