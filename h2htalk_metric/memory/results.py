"""What the answers to CompanionMemory show: verdicts by family and by distance, per strategy and length."""

__all__ = ["DAY_BINS", "TOKEN_BINS", "measure_answers", "measure_memory", "verdicts_of"]

import datetime
import itertools
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from h2htalk_datasets.loading import manifest
from h2htalk_datasets.memory.history import history_of, num_tokens, visible_sessions
from h2htalk_datasets.memory.schema import FAMILIES, read_small_talk
from h2htalk_datasets.memory.verdicts import VERDICTS, verdict
from h2htalk_datasets.tasks import MEMORY
from h2htalk_metric.judge.rubric import load_rubric
from h2htalk_metric.memory.contexts import read_contexts
from h2htalk_metric.memory.judging import answer_runs, judge_figures
from h2htalk_metric.memory.remember import memory_folders, rows_by_arc
from h2htalk_metric.probes.figures import figure
from h2htalk_metric.stats.intervals import as_json
from h2htalk_metric.stats.significance import holm, paired_test

TOKEN_BINS = (500, 1_000, 2_000, 4_000, 8_000, 16_000)
"""Upper ends of the groups of distance in tokens; the last group has no end."""

DAY_BINS = (7, 14, 28)
"""Upper ends (in days, exclusive) of the groups of distance in days."""

Rows = Sequence[Mapping[str, Any]]


def measure_memory(out: Path) -> dict[str, Any]:
    """Measure all strategies in a run folder that have answers.

    Returns:
        Content of ``probes/memory.json``: `strategies` by ``LENGTH STRATEGY`` (see :func:`measure_answers`; `judge`
        is by :func:`h2htalk_metric.memory.judging.judge_figures`), and `tests`: the paired differences of accuracy
        between the strategies of each length, with Holm's correction.

    """
    strategies: dict[str, dict[str, Any]] = {}
    verdicts: dict[str, dict[str, str]] = {}
    model = None
    for folder in memory_folders(out):
        options = json.loads((folder / "strategy.json").read_text("utf-8"))
        runs = answer_runs(folder)
        if not runs:
            continue
        lines = [line for run in runs for line in run.predictions]
        rows = [row for of_arc in rows_by_arc(options["arcs"]).values() for row in of_arc]
        contexts = read_contexts(folder / "contexts.jsonl")
        reasons = {identity: context.error for identity, context in contexts.items() if context.error is not None}
        name = f"{options['length']} {folder.name}"
        answers = {line["id"]: line["prediction"] for line in lines}
        verdicts[name] = verdicts_of(rows, answers)
        strategies[name] = measure_answers(rows, answers, options["length"]) | {
            "options": options,
            "unscored": dict(Counter(reasons[row["id"]] for row in rows if row["id"] in reasons)),
            "tokens_per_answer": _tokens(lines) / len(lines) + _note_tokens(rows, contexts) / len(rows),
            "judge": judge_figures(runs, rows, verdicts[name]),
        }
        model = runs[0].model
    return {
        "probe": MEMORY,
        "model": model,
        "strategies": strategies,
        "tests": _tests(strategies, verdicts),
        "signature": {"questions": manifest()["probes"]["fingerprints"][MEMORY][:12], **_judging(strategies)},
    }


def measure_answers(rows: Rows, answers: Mapping[str, str], length: str) -> dict[str, Any]:
    """Measure answers by the forms of their questions.

    Args:
        rows: questions of CompanionMemory.
        answers: by the id of the question; questions without one are left out.
        length: of the histories.

    Returns:
        n; `accuracy` of all, and by family; `verdicts`: the share of each; `invented` of the questions on what was
        never said, `outdated` of those on a changed value; `by_tokens` and `by_days`: accuracy by the distance from the
        last evidence to the question. Shares are 0..1 with intervals clustered by relationship.

    """
    judged = verdicts_of(rows, answers)
    scored = [row for row in rows if row["id"] in judged]

    def share(wanted: str, ids: set[str] | None = None, family: str | None = None) -> dict[str, Any] | None:
        chosen = [row for row in scored if (ids is None or row["id"] in ids) and family in (None, row["family"])]
        values = [float(judged[row["id"]] == wanted) for row in chosen]
        return figure(values, [row["relationship"] for row in chosen], rate=True)

    distances = _distances(length)
    return {
        "n": len(scored),
        "accuracy": {"all": share("right")} | {family: share("right", family=family) for family in FAMILIES},
        "verdicts": {name: share(name) for name in VERDICTS},
        "invented": share("invented", family="abstention"),
        "outdated": share("stale", family="update"),
        "by_tokens": _by_bin(share, {key: tokens for key, (tokens, _) in distances.items()}, TOKEN_BINS),
        "by_days": _by_bin(share, {key: days for key, (_, days) in distances.items()}, DAY_BINS),
    }


def verdicts_of(rows: Rows, answers: Mapping[str, str]) -> dict[str, str]:
    """The verdict on each answer, by the id of the question."""
    return {
        row["id"]: verdict(row, answers[row["id"]], (row["user"], row["companion"]), _said_before(row))
        for row in rows
        if row["id"] in answers
    }


def _said_before(row: Mapping[str, Any]) -> list[str]:
    """The days and turns before a question."""
    turns = [turn["content"] for session in row["sessions"] for turn in session["turns"]]
    return [*(session["date"] for session in row["sessions"]), *turns]


@cache
def _distances(length: str) -> dict[str, tuple[int, int]]:
    """Tokens and days from the last evidence to each question that has evidence."""
    small_talk, distances = read_small_talk(), {}
    for rows in rows_by_arc().values():
        history = history_of(rows, length, small_talk)
        for row in rows:
            if row["evidence"]:
                distances[row["id"]] = _distance(row, visible_sessions(row, history))
    return distances


def _distance(row: Mapping[str, Any], visible: Rows) -> tuple[int, int]:
    last = row["evidence"][-1]
    tokens, found = 0, None
    for session in visible:
        for turn in session["turns"]:
            if found is not None:
                tokens += num_tokens(turn["content"])
            elif (session["id"], turn["number"]) == (last["session"], last["turn"]):
                found = session
    days = datetime.date.fromisoformat(row["date"]) - datetime.date.fromisoformat(
        found["date"] if found else row["date"]
    )
    return tokens, days.days


def _by_bin(
    share: Callable[..., dict[str, Any] | None], distances: Mapping[str, int], ends: Sequence[int]
) -> list[dict[str, Any]]:
    """Accuracy by groups of distance, nearest first; groups without questions are left out."""
    groups = []
    for low, high in itertools.pairwise((0, *ends, None)):
        inside = {key for key, value in distances.items() if value >= (low or 0) and (high is None or value < high)}
        if figure := share("right", inside):
            groups.append({"from": low, "to": high, **figure})
    return groups


def _tests(
    strategies: Mapping[str, Mapping[str, Any]], verdicts: Mapping[str, Mapping[str, str]]
) -> list[dict[str, Any]]:
    """Paired tests of accuracy between strategies of one length, over the questions that both answered."""
    tests = []
    for first, second in itertools.combinations(strategies, 2):
        if strategies[first]["options"]["length"] != strategies[second]["options"]["length"]:
            continue
        ids = [identity for identity in verdicts[first] if identity in verdicts[second]]
        one, other = (np.array([verdicts[name][i] == "right" for i in ids], float) for name in (first, second))
        if test := paired_test(one, other, [identity.split("-")[1] for identity in ids]):
            tests.append({"first": first, "second": second, **as_json(test)})
    for line, corrected in zip(tests, holm([line["p"] for line in tests]), strict=True):
        line["p_holm"] = corrected
    return tests


def _judging(strategies: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The part of the signature that says how answers were judged; empty if none were."""
    judged = [one["judge"] for one in strategies.values() if one["judge"]]
    if not judged:
        return {}
    names = sorted({name for one in judged for name in one["by"]})
    # Strategies may have been judged by different commands, so a setting can have several values.
    keys = dict.fromkeys(key for one in judged for key in one["settings"])
    settings = {key: ",".join(sorted({str(one["settings"].get(key)) for one in judged})) for key in keys}
    return {"rubric": load_rubric(MEMORY).hash, "judge": ",".join(names), **settings}


def _tokens(lines: Rows) -> int:
    return sum(line["prompt_tokens"] + line["new_tokens"] for line in lines)


def _note_tokens(rows: Rows, contexts: Mapping[str, Any]) -> int:
    """Tokens of the notes: per relationship those of its longest history."""
    by_arc: dict[str, int] = {}
    for row in rows:
        if row["id"] in contexts:
            by_arc[row["relationship"]] = max(by_arc.get(row["relationship"], 0), contexts[row["id"]].tokens)
    return sum(by_arc.values())
