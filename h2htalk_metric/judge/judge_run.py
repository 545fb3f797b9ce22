"""Judge a run: one judgement per answer and judge, into ``RUN/judgements.jsonl``."""

__all__ = ["judge_run", "open_jobs", "resumed"]

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from h2htalk_datasets.generation.concurrency import as_completed
from h2htalk_datasets.progress import progress_bar
from h2htalk_metric.judge.judge import Judge
from h2htalk_metric.judge.judge_items import JudgeItem, judge_items
from h2htalk_metric.judge.judgement import append_judgement, valid_judgements
from h2htalk_metric.judge.panel import Panel
from h2htalk_metric.runs.run import Run

Job = tuple[Judge, JudgeItem]


def judge_run(
    run: Run | str | Path,
    judges: Sequence[Judge],
    panel: Panel,
    *,
    max_connections: int = 8,
    items: Sequence[JudgeItem] | None = None,
) -> int:
    """Have a run judged. Valid judgements are not requested again, failures are.

    Args:
        run: the run, or its folder.
        judges: the panel's judges, in its order.
        panel: written to ``judge.json`` as soon as each judge has a valid verdict; a judge that gives none (a wrong
            model name, a server that is down) must not replace an earlier panel. In a run without a panel it is
            written after the first judgement.
        max_connections: calls in flight.
        items: what is judged; None: see :func:`h2htalk_metric.judge.judge_items.judge_items`.

    Returns:
        Number of items times judges that still have no verdict, failures included.

    Raises:
        H2HTalkError: the run is not complete, another process works on it, or a server refuses every request.

    """
    run = Run.of(run)
    _ = run.manifest  # before the lock, which would create the folder
    run.folder.lock()
    try:
        items = judge_items(run) if items is None else items
        panel = resumed(run.path, judges, panel)
        jobs = open_jobs(run.path, items, judges, panel)
        num_open, total = len(jobs), len(items) * len(judges)
        counts = Counter(judge.name for judge, _ in jobs)
        without_verdict = {name for name, count in counts.items() if count == len(items)}
        if not without_verdict:
            panel.write(run.path)
        with progress_bar("judgements", total, total - len(jobs)) as progress:
            for judgement in as_completed(_evaluations(jobs), max_connections):
                if judgement is None:
                    continue
                append_judgement(run.path, judgement)
                panel = _with_temperatures(panel, judges)
                if judgement.unscored is None:
                    num_open -= 1
                    without_verdict.discard(judgement.judge_model)
                stored = Panel.read(run.path)
                if stored is None or (stored != panel and not without_verdict):
                    panel.write(run.path)
                progress.update(1)
        return num_open
    finally:
        run.folder.unlock()


def resumed(folder: Path, judges: Sequence[Judge], panel: Panel) -> Panel:
    """The panel with what an earlier call found out: judges whose server refuses temperature 0 do not try it again."""
    stored = Panel.read(folder)
    if stored is None or (stored.server, stored.num_explanations) != (panel.server, panel.num_explanations):
        return panel
    for judge in judges:
        if judge.name in stored.default_temperature:
            judge.chat.use_default_temperature()
    return _with_temperatures(panel, judges)


def _with_temperatures(panel: Panel, judges: Sequence[Judge]) -> Panel:
    refused = tuple(judge.name for judge in judges if judge.default_temperature)
    return replace(panel, default_temperature=refused)


def open_jobs(folder: Path, items: Sequence[JudgeItem], judges: Sequence[Judge], panel: Panel) -> list[Job]:
    """The judges and items without a verdict yet, judge by judge."""
    judgements = valid_judgements(folder, items, panel)
    scored = {(i, one.judge_model) for i, of_item in judgements.items() for one in of_item if one.unscored is None}
    return [(judge, item) for judge in judges for item in items if (item.id, judge.name) not in scored]


def _evaluations(jobs: Sequence[Job]) -> Iterator[Any]:
    for judge, item in jobs:
        if judge.budget.exhausted:
            return
        yield judge.evaluate(item)
