"""A run as a log of Inspect, with the scores of judges and people as precomputed scores.

Inspect's own `write_eval_log` writes the file, so inspect-ai must be installed.
"""

__all__ = ["write_inspect_logs"]

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_metric.export.figures import J, S, figures_of
from h2htalk_metric.export.inspect_scores import COMPOSITE, SCORER, answer_scores
from h2htalk_metric.export.results import RunResults, ScoredAnswer
from h2htalk_metric.export.source import Source
from h2htalk_metric.metrics.composite import COMPONENTS
from h2htalk_metric.metrics.tokenizers import clean
from h2htalk_metric.stats.aggregate import OVERALL
from h2htalk_metric.stats.intervals import as_json

_MARK = "h2htalk_export"
"""Key in a log's metadata that tells our logs from others."""
_STOP_REASONS = {"stop": "stop", "length": "max_tokens", "content_filter": "content_filter"}


def write_inspect_logs(results: Sequence[RunResults], out: Path, source: Source) -> list[Path]:
    """Write a log per language of a run.

    Args:
        results: of the run.
        out: a file ``NAME.eval`` for a run in one language, or a folder of logs. An earlier export in its place is
            replaced.
        source: `model_id` is the displayed name of the model; the rest is not used.

    Returns:
        The files.

    Raises:
        H2HTalkError: inspect-ai is not installed, `out` is something else than a log of ours or a folder of logs, or
            the run has several languages and `out` is a file.

    """
    try:
        from inspect_ai.log import write_eval_log
    except ImportError:
        raise H2HTalkError("inspect-ai is not installed; run: pip install inspect-ai") from None
    files = _files(results, out)
    for one, file in zip(results, files, strict=True):
        file.parent.mkdir(parents=True, exist_ok=True)
        part = file.with_name(f".{file.name}.part")
        write_eval_log(_log(one, source), str(part), format="eval")
        part.replace(file)
    return files


def _files(results: Sequence[RunResults], out: Path) -> list[Path]:
    if out.suffix != ".eval":
        if out.exists() and (not out.is_dir() or any(file.suffix not in (".eval", ".json") for file in out.iterdir())):
            raise H2HTalkError(f"{out} exists and is not a folder of Inspect's logs; choose another one with --out")
        return [out / f"h2htalk{one.suffix}_{one.uuid}.eval" for one in results]
    if len(results) > 1:
        raise H2HTalkError(f"the run has {len(results)} languages, which have a log each; name a folder with --out")
    if out.exists() and not _is_ours(out):
        raise H2HTalkError(f"{out} exists and is not an export; choose another file with --out")
    return [out]


def _is_ours(file: Path) -> bool:
    from inspect_ai.log import read_eval_log

    try:
        return _MARK in (read_eval_log(str(file), header_only=True).eval.metadata or {})
    except Exception:  # Inspect has many errors for a file that is not a log
        return False


def _log(results: RunResults, source: Source) -> Any:
    from inspect_ai.log import EvalConfig, EvalDataset, EvalLog, EvalPlan, EvalSpec, EvalStats
    from inspect_ai.model import GenerateConfig

    manifest, time = results.run.manifest, results.answered.isoformat(timespec="seconds")
    generation = manifest["generation"]
    config = GenerateConfig(
        temperature=generation.get("temperature"), top_p=generation.get("top_p"), seed=generation.get("seed")
    )
    signature = results.judged.signature if results.judged else results.scores.signature
    ids = [answer.prompt.id for answer in results.answers]
    model, numbers = clean(source.model_id or results.run.model), _rater_numbers(results.answers)
    samples = [_sample(answer, model, numbers) for answer in results.answers]
    spec = EvalSpec(
        eval_id=results.uuid,
        run_id=results.uuid,
        task_id=results.uuid,
        created=time,
        task=f"h2htalk{results.suffix}",
        dataset=EvalDataset(name="h2htalk", samples=len(ids), sample_ids=ids, shuffled=False),
        model=model,
        model_generate_config=config,
        config=EvalConfig(),
        packages={"h2htalk": str(signature["h2htalk"])},
        metadata={_MARK: 1, "language": results.language, "signature": signature, "manifest": manifest},
    )
    return EvalLog(
        status="success",
        eval=spec,
        plan=EvalPlan(config=config),
        results=_eval_results(results, samples),
        stats=EvalStats(started_at=time, completed_at=time),
        samples=samples,
    )


def _rater_numbers(answers: Iterable[ScoredAnswer]) -> dict[str, int]:
    """Numbers that stand for the names of raters."""
    raters = dict.fromkeys(review.rater for answer in answers for review in answer.reviews)
    return {rater: number for number, rater in enumerate(raters, 1)}


def _sample(answer: ScoredAnswer, model: str, rater_numbers: Mapping[str, int]) -> Any:
    from inspect_ai.log import EvalSample
    from inspect_ai.model import ChatMessageAssistant, ChatMessageSystem, ChatMessageUser

    record, prediction = answer.record, answer.prediction
    messages = {"system": ChatMessageSystem, "user": ChatMessageUser}
    given = [
        messages[message["role"]](id=f"{record['id']}-{place}", content=clean(message["content"]))
        for place, message in enumerate(answer.prompt.messages)
    ]
    reply = ChatMessageAssistant(id=f"{record['id']}-answer", content=_content(prediction))
    kind = {key: record.get(key) for key in ("task", "language", "relationship", "need", "difficulty", "emotion")}
    output = _output(reply, prediction)
    return EvalSample(
        id=record["id"],
        epoch=1,
        input=given,
        target=[clean(reference) for reference in answer.references],
        messages=[*given, reply],
        output=output,
        model_usage={model: output.usage} if output.usage else {},
        scores=answer_scores(answer, rater_numbers),
        metadata={key: value for key, value in kind.items() if value is not None},
    )


def _content(prediction: Mapping[str, Any]) -> Any:
    from inspect_ai.model import ContentReasoning, ContentText

    text = clean(prediction["prediction"])
    if not prediction.get("reasoning"):
        return text
    return [ContentReasoning(reasoning=clean(prediction["reasoning"])), ContentText(text=text)]


def _output(reply: Any, prediction: Mapping[str, Any]) -> Any:
    from inspect_ai.model import ChatCompletionChoice, ModelOutput, ModelUsage

    stop = _STOP_REASONS.get(str(prediction.get("finish_reason")), "unknown")
    given, new = prediction.get("prompt_tokens"), prediction.get("new_tokens")
    usage = None
    if given is not None and new is not None:
        usage = ModelUsage(input_tokens=given, output_tokens=new, total_tokens=given + new)
    return ModelOutput(choices=[ChatCompletionChoice(message=reply, stop_reason=stop)], usage=usage)


def _eval_results(results: RunResults, samples: Sequence[Any]) -> Any:
    from inspect_ai.log import EvalResults, EvalScore, HeadlineMetric

    tasks, n = results.scores.by_task(), len(samples)
    of_metric = {metric: [figure for figure in figures_of(results) if figure.metric is metric] for metric in (S, J)}
    scores = [
        EvalScore(name=COMPOSITE, scorer=SCORER, scored_samples=n, metrics=_metrics(of_metric[S])),
        *(
            EvalScore(name=name, scorer=SCORER, scored_samples=n, metrics=_plain_metrics(tasks[name].to_dict()))
            for name in COMPONENTS
        ),
    ]
    if of_metric[J]:
        scored = sum(figure.n for figure in of_metric[J])
        scores.append(EvalScore(name="J", scorer="J", scored_samples=scored, metrics=_metrics(of_metric[J])))
    scores += [
        EvalScore(name="score", scorer=scorer, scored_samples=count, unscored_samples=missing, metrics=metrics)
        for scorer, count, missing, metrics in _judges_and_people(samples)
    ]
    headline = HeadlineMetric(scorer=SCORER, score=COMPOSITE, metric=OVERALL)
    has_overall = OVERALL in scores[0].metrics
    return EvalResults(total_samples=n, completed_samples=n, scores=scores, headline=headline if has_overall else None)


def _metrics(figures: Iterable[Any]) -> dict[str, Any]:
    """Means with their 95% intervals; Overall and the averages first."""
    from inspect_ai.log import EvalMetric

    ordered = sorted(figures, key=lambda figure: (figure.cell != OVERALL, not figure.cell.endswith("Avg")))
    return {
        figure.cell: EvalMetric(name=figure.cell, value=figure.interval.value, metadata=as_json(figure.interval))
        for figure in ordered
    }


def _plain_metrics(values: Mapping[Any, float]) -> dict[str, Any]:
    from inspect_ai.log import EvalMetric

    return {str(name): EvalMetric(name=str(name), value=value) for name, value in values.items()}


def _judges_and_people(samples: Sequence[Any]) -> list[tuple[str, int, int, dict[str, Any]]]:
    """Per judge and for people: scored and unscored samples, and the mean score of each config."""
    values: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for sample in samples:
        for name, score in sample.scores.items():
            if name == "people" or name.startswith("judge "):
                value = score.value["score"] if isinstance(score.value, dict) else score.value
                values[name][sample.metadata["task"]].append(value)
    rows = []
    for name, by_task in values.items():
        scored = {task: [value for value in own if not math.isnan(value)] for task, own in by_task.items()}
        means = {task: fmean(own) for task, own in scored.items() if own}
        count, total = (sum(map(len, groups.values())) for groups in (scored, by_task))
        rows.append((name, count, total - count, _plain_metrics(means)))
    return rows
