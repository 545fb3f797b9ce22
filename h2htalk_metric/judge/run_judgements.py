"""The judgements of a run: which items, what was said of them, in RUN/judgements.jsonl and RUN/judge.json.

judgements.jsonl   append-only, a line an item and judge: marks, or why there are none
judge.json         the panel and its settings, alpha and tau, as last asked for
"""

__all__ = ["Panel", "append_judgement", "judge_names", "judge_run", "standing", "verdicts_of"]

import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.files import write_atomically
from h2htalk_datasets.generation.chat_client import as_they_land
from h2htalk_datasets.generation.run_folder import RunFolder
from h2htalk_datasets.progress import Progress
from h2htalk_metric.judge.blend import ALPHA, TAU
from h2htalk_metric.judge.items import items_of
from h2htalk_metric.judge.marking import Item, Judge, item_key


@dataclass(frozen=True)
class Panel:
    """Who judges a run and how; stands in the signature of a judged result.

    Attributes:
        judges: their models' names.
        evidence: explanations drawn before marks.
        seed: of the first draw.
        alpha: weight of the composite in J (Eq. 3).
        tau: below it an item is for people (Eq. 4).
        server: where they were asked; None is OpenAI's own, and stands in what earlier versions wrote.

    """

    judges: tuple[str, ...]
    evidence: int = 0
    seed: int = 0
    alpha: float = ALPHA
    tau: float = TAU
    server: str | None = None

    def asks_as(self, other: "Panel") -> bool:
        """Whether both give the same marks; alpha and tau only say what is made of them."""
        return replace(self, alpha=other.alpha, tau=other.tau) == other

    @classmethod
    def read(cls, folder: Path) -> "Panel | None":
        """The panel of a run, or None where it has not been judged."""
        file = folder / "judge.json"
        if not file.exists():
            return None
        try:
            kept = json.loads(file.read_text("utf-8"))
            return cls(**kept | {"judges": tuple(kept["judges"])})
        except (ValueError, TypeError, KeyError):
            raise H2HTalkError(f"{file} can't be read; run the same `h2htalk judge` command again") from None

    def write(self, folder: Path) -> None:
        """Keep it in the run folder."""
        write_atomically(folder / "judge.json", json.dumps(asdict(self), indent=1) + "\n")


def judge_names(given: str) -> tuple[str, ...]:
    """The models that ``--judge`` names, each once; none if it names none."""
    return tuple(dict.fromkeys(name.strip() for name in given.split(",") if name.strip()))


def standing(folder: Path, items: Sequence[Item], panel: Panel) -> dict[tuple[str, str], dict[str, Any]]:
    """The judgements that hold for these items, rubrics and settings, by record id and judge.

    A line made under anything else is passed over; of several for one item a verdict goes before a failure.
    """
    asked = panel.evidence, panel.seed, panel.server
    keys = {item_key(item, judge, *asked) for item in items for judge in panel.judges}
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for line in _lines(folder / "judgements.jsonl"):
        place = line["id"], line["judge"]
        if line["key"] in keys and (place not in found or "unscored" not in line):
            found[place] = line
    return found


def verdicts_of(
    identity: str, lines: Mapping[tuple[str, str], dict[str, Any]], panel: Panel
) -> tuple[list[dict[str, Any]], str | None]:
    """What each judge of a panel said of an item, in the panel's order, or why the panel has no verdict.

    There is none as long as one judge has none: a mean over those that did answer would be another panel's.

    Args:
        identity: of the record.
        lines: see :func:`standing`.
        panel: who was asked.

    """
    said = {judge: lines.get((identity, judge), {"unscored": "not asked yet"}) for judge in panel.judges}
    faults = [f"{judge}: {line['unscored']}" for judge, line in said.items() if "unscored" in line]
    return ([], "; ".join(faults)) if faults else (list(said.values()), None)


def judge_run(
    folder: str | Path,
    judges: Sequence[Judge],
    panel: Panel,
    *,
    in_flight: int = 8,
    items: Sequence[Item] | None = None,
) -> int:
    """Have a run judged; what is there already is not asked again, failures are.

    Args:
        folder: the run folder.
        judges: the panel's, in its order.
        panel: is kept in the run folder once each judge has given a verdict, so that one that gives none (a typing
            error, a server that is down) does not take the place of those that did; where nobody judged yet, once
            something was said.
        in_flight: calls at once.
        items: what is judged; :func:`h2htalk_metric.judge.items.items_of` the run if not given.

    Returns:
        How many items and judges are still without a verdict, those that failed included.

    """
    run = RunFolder(folder)
    run.manifest()  # a lock would make the folder
    run.lock()
    try:
        items = items_of(folder) if items is None else items
        jobs = open_jobs(run.path, items, judges, panel)
        total = len(items) * len(judges)
        fresh = not (run.path / "judge.json").exists()
        unheard = {name for name, count in Counter(judge.name for judge, _ in jobs).items() if count == len(items)}
        kept = not unheard
        if kept:
            panel.write(run.path)
        open_ = len(jobs)

        def marking() -> Iterator[Any]:
            for judge, item in jobs:
                if judge.purse.empty:
                    return
                yield judge.mark(item)

        with Progress("judgements", total, total - len(jobs)) as progress:
            for landed, line in enumerate(as_they_land(marking(), in_flight), 1):
                if line is not None:
                    append_judgement(run.path, line)
                    if "unscored" not in line:
                        open_ -= 1
                        unheard.discard(line["judge"])
                    if not kept and (fresh or not unheard):
                        panel.write(run.path)
                        kept = True
                    progress.update(total - len(jobs) + landed)
        return open_
    finally:
        run.unlock()


def open_jobs(folder: Path, items: Sequence[Item], judges: Sequence[Judge], panel: Panel) -> list[tuple[Judge, Item]]:
    """What is still to be asked: items without a verdict of a judge."""
    done = {place for place, line in standing(folder, items, panel).items() if "unscored" not in line}
    return [(judge, item) for judge in judges for item in items if (item.id, judge.name) not in done]


def append_judgement(folder: Path, line: dict[str, Any]) -> None:
    """Add a line to ``judgements.jsonl``; on disk when this returns."""
    with (folder / "judgements.jsonl").open("ab+") as file:
        if file.tell() and (file.seek(-1, os.SEEK_END), file.read(1))[1] != b"\n":
            file.write(b"\n")  # a line torn by a kill must not take this one with it
        file.write(json.dumps(line, ensure_ascii=False).encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())


def _lines(file: Path) -> Iterator[dict[str, Any]]:
    if not file.exists():
        return
    for raw in file.read_bytes().split(b"\n"):
        try:
            line = json.loads(raw)
        except ValueError:
            continue  # torn by a kill; its item is asked again
        if isinstance(line, dict) and {"id", "judge", "key"} <= line.keys():
            yield line
