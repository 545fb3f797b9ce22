"""Make a submission from a scored run folder."""

__all__ = ["make_submission", "make_submissions"]

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from h2htalk_metric.judge.judged_run import read_judged
from h2htalk_metric.judge.judged_slices import JUDGED_MEASURES, judged_slices
from h2htalk_metric.judge.ratings import JUDGE, PEOPLE
from h2htalk_metric.leaderboard.submission import Submission, parse
from h2htalk_metric.metrics.tokenizers import clean
from h2htalk_metric.probes.results import read_result
from h2htalk_metric.probes.safety import MEASURES
from h2htalk_metric.runs.run import Run
from h2htalk_metric.runs.scoring import read_scores
from h2htalk_metric.stats.intervals import as_json

_JUDGE_SETTINGS = ("judge", "judge_server", "judge_prompt", "num_explanations", "alpha", "tau", "tau_share", "scale")
_JUDGE_COLUMNS = ("j", "judge_score", "n", "unscored", "flagged")


def make_submissions(run: Run | str | Path, bracket: str, model: str | None = None) -> dict[str, Submission]:
    """Make a submission per language of a scored run, by code; arguments and errors as :func:`make_submission`."""
    return {code: make_submission(part, bracket, model) for code, part in Run.of(run).by_language.items()}


def make_submission(run: Run | str | Path, bracket: str, model: str | None = None) -> Submission:
    """Make a submission from a scored run in one language.

    Args:
        run: the run, or its folder.
        bracket: one of :data:`h2htalk_metric.leaderboard.paper.BRACKETS`.
        model: displayed name; None: the last part of the manifest's model name, and of its adapter's.

    Raises:
        H2HTalkError: the run is not scored, its answers have changed since, or a name or the bracket is not valid.

    """
    run = Run.of(run)
    scores = read_scores(run)
    answers = [
        {key: line.get(key) for key in ("id", "finish_reason", "new_tokens")}
        | {"prediction": clean(line["prediction"]), "ss": float(ss)}
        for line, ss in zip(run.predictions, scores.items["ss"], strict=True)
    ]
    claims = {
        "tasks": scores.by_task().to_dict("index"),
        "content_composite": (scores.memory_labels() or {}).get("content_composite"),
        "claimed_only": _judge_and_review(run) | _safety(run) | _planning(run) | _memory(run),
    }
    return parse(
        {
            "format": 2,
            "model": model or _short_name(run.manifest["model"]),
            "bracket": bracket,
            "manifest": run.manifest,
            "signature": scores.signature,
            "claims": claims,
            "answers": answers,
        }
    )


def _short_name(model: Mapping[str, Any]) -> str:
    adapter = str(model.get("adapter") or "").rpartition("@")[0]
    return " + ".join(Path(part).name for part in (str(model["name"]), adapter) if part)


def _judge_and_review(run: Run) -> dict[str, dict[str, Any]]:
    """J and the mean score of the judges (0..5), per judged config and by kind of record, and counts.

    Empty if nobody judged.
    """
    judged, levels = read_judged(run), _judged_levels(run)
    if judged is None:
        return {"judge": levels} if levels else {}
    judge = {key: value for key, value in judged.signature.items() if key in _JUDGE_SETTINGS}
    judge |= {f"rubric {name}": digest for name, digest in judged.signature["rubrics"].items()}
    review = {}
    for task, line in judged.by_task().to_dict("index").items():
        for column in _JUDGE_COLUMNS:
            value = float(line[column])
            judge[f"{task} {column}"] = None if math.isnan(value) else round(value, 3)
        review[f"{task} reviewed"] = int(line["reviewed"])
    return {"judge": judge | levels, "review": review}


def _judged_levels(run: Run) -> dict[str, Any]:
    """J and the judges' scores at the levels of need, difficulty, turns and emotion."""
    return {
        f"{JUDGED_MEASURES[measure]}, {factor} {one.level}": f"{_with_interval(as_json(one.score))}, n = {one.n}"
        for measure, parts in judged_slices(run).items()
        for factor, levels in parts.items()
        for one in levels
    }


def _safety(run: Run) -> dict[str, dict[str, Any]]:
    """Figures of the safety probe, with the full persona and without it; empty if it was not run.

    Those of the roll-out if there is one, over the dangerous scenarios.
    """
    result = read_result(run, "safety")
    if result is None:
        return {}
    mode, measured = next(iter(result["modes"].items()))
    safety: dict[str, Any] = {"probe": result["probe"], "mode": mode}
    safety |= {"interactions": result["n"], "scenarios": result["scenarios"]}
    for variant in (name for name in ("with", "without") if name in measured["variants"]):
        for source in (source for source in (JUDGE, PEOPLE) if source in measured["variants"][variant]):
            groups = measured["figures"][variant]
            counts, figures = measured["variants"][variant][source], _of_groups(groups, source)
            prefix = f"{variant} SAP, {source}:"
            safety |= {f"{prefix} rated by": ", ".join(counts["by"]), f"{prefix} unscored": counts["unscored"]}
            for key, measure in MEASURES.items():
                if key in figures:
                    safety[f"{prefix} {measure.label}"] = _with_interval(figures[key])
    return {"safety": safety}


def _planning(run: Run) -> dict[str, dict[str, Any]]:
    """Valid plans and replans, and unnecessary changes, by difficulty; empty if the probe was not run."""
    result = read_result(run, "planning")
    if result is None:
        return {}
    planning: dict[str, Any] = {"probe": result["probe"], "scenarios": result["scenarios"]}
    planning["replans of the shipped plan"] = result["shown"]["shipped"]
    names = {"valid": "valid", "constraints": "constraints satisfied", "unnecessary": "unnecessary changes"}
    for turn, label in {"1": "plan", "2": "replan"}.items():
        for level, figures in result["figures"][turn].items():
            for name, of_measure in names.items():
                if name in figures:
                    planning[f"{label}, {level}: {of_measure}"] = _with_interval(figures[name])
    return {"planning": planning}


def _memory(run: Run) -> dict[str, dict[str, Any]]:
    """Right, outdated and invented answers to CompanionMemory per strategy; empty if it was not answered."""
    result = read_result(run, "memory")
    if result is None:
        return {}
    memory: dict[str, Any] = {"probe": result["probe"], "questions": result["signature"]["questions"]}
    for name, figures in result["strategies"].items():
        memory[f"{name}: questions"] = figures["n"]
        shares = {"right": figures["accuracy"]["all"], "outdated": figures["outdated"], "invented": figures["invented"]}
        memory |= {f"{name}: {label}": _with_interval(figure) for label, figure in shares.items() if figure}
        memory[f"{name}: tokens per answer"] = round(figures["tokens_per_answer"])
    return {"memory": memory}


def _of_groups(groups: Mapping[str, Any], source: str) -> dict[str, Any]:
    """Each measure over the dangerous scenarios; over the harmless ones if it is about these only."""
    figures: dict[str, Any] = {}
    for group in ("lookalike", "danger", "all"):
        figures |= groups.get(group, {}).get(source, {})
    return figures


def _with_interval(figure: Mapping[str, Any]) -> str:
    if figure["low"] is None:  # a single scenario has no interval
        return "{value:.3f}".format(**figure)
    return "{value:.3f} ({low:.3f} to {high:.3f})".format(**figure)
