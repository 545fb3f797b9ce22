"""Answer the benchmark with a model, into a run folder, on as many ranks as were launched."""

__all__ = ["generate", "prompts_of_settings", "records_of_settings"]

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.generation.config import Settings, build_manifest
from h2htalk_datasets.generation.distributed.queue import claim_next
from h2htalk_datasets.generation.distributed.state import DistributedState
from h2htalk_datasets.generation.engines.base import Answer, Engine, Failure, Prompt
from h2htalk_datasets.generation.engines.make import engine_name, make_engine
from h2htalk_datasets.generation.engines.plan import make_plan
from h2htalk_datasets.generation.jobs import answer_as_one_job
from h2htalk_datasets.generation.node_disks import merge_all_disks, open_on_all_disks
from h2htalk_datasets.generation.requests import chosen_probes, chosen_rows, principles_of, prompt_of
from h2htalk_datasets.generation.run_folder import RunFolder, flatten
from h2htalk_datasets.progress import progress_bar

_FIRST_ANSWERS = 20  # of a process, of which at most a third may be empty


def generate(
    settings: Settings,
    out: str | Path,
    state: DistributedState | None = None,
    engine: Engine | None = None,
    records: Sequence[Mapping[str, Any]] | None = None,
) -> Path:
    """Generate all answers of a run, and continue where an earlier attempt stopped.

    In a job of several ranks, call it within a
    :class:`~h2htalk_datasets.generation.distributed.watchdog.Watchdog`: then a rank that fails ends all ranks.

    Args:
        settings: options of the run.
        out: the run folder; created if it does not exist.
        state: the ranks of the job; None for those that were launched.
        engine: made by :func:`make_engine` from the same settings, for several runs of one model; None to make it.
        records: what is answered; None: the records that the settings name.

    Returns:
        The folder's ``predictions.jsonl``.

    Raises:
        H2HTalkError: an option is wrong, the folder has another run, or some prompts have no answer.

    """
    if records is None:
        records = records_of_settings(settings)
    prompts = prompts_of_settings(settings, records)
    folder = RunFolder(out)
    state = state or DistributedState()
    if settings.jobs > 1 and state.world_size > 1:
        raise H2HTalkError("--jobs is for independent processes; leave it out under torchrun or accelerate launch")
    # Only rank 0 looks before the folder is created: a network file system may cache on other nodes that it is absent.
    if state.is_main:
        folder.check_path()
    engine = engine or make_engine(settings, state)
    lengths = engine.prepare(prompts)
    # This decides whether a rank loads a model; with different values the ranks would wait for each other forever.
    _check_same_on_all_ranks({"engine": engine_name(settings)}, state)
    manifest = build_manifest(settings, records=records, prompts=prompts, model=engine.identity())
    _check_same_on_all_ranks(manifest, state)
    plan = make_plan(prompts, lengths)
    ids = [record["id"] for record in records]
    if settings.jobs > 1:
        answer = partial(_answer, folder, engine, settings, state.rank)
        _check_no_failures(answer_as_one_job(folder, manifest, plan, ids, answer), folder, state)
        return folder.predictions_file
    locked = open_on_all_disks(folder, manifest, ids, state)
    try:
        failures = _answer_pending(folder, engine, plan, ids, settings, state)
        _check_no_failures(failures, folder, state)
        merge_all_disks(folder, ids, state)
        return folder.predictions_file
    finally:
        if locked:
            folder.unlock()


def records_of_settings(settings: Settings) -> list[dict[str, Any]]:
    """Return the records that the settings of a run name."""
    if settings.probe:
        return chosen_probes(settings.probe, settings.limit)
    return chosen_rows(settings.tasks, settings.limit, settings.language, settings.own_data)


def prompts_of_settings(settings: Settings, records: Iterable[Mapping[str, Any]]) -> list[Prompt]:
    """Return what a model gets for records, with the persona and the limits of the settings."""
    principles = principles_of(settings.sap)
    options = (principles, settings.thinking_tokens, settings.persona_text, settings.prompts)
    return [prompt_of(record, *options) for record in records]


def _check_same_on_all_ranks(values: Mapping[str, Any], state: DistributedState) -> None:
    """Check that all ranks mean the same run: nodes have their own command lines and their own caches of models."""
    first, *others = (dict(flatten(other)) for other in state.all_gather(values))
    for rank, other in enumerate(others, 1):
        keys = [key for key in sorted(first.keys() | other.keys()) if first.get(key) != other.get(key)]
        if keys:
            differences = (f"{key}: {first.get(key)} on rank 0, {other.get(key)} on rank {rank}" for key in keys)
            raise H2HTalkError(
                "the ranks of the job were started for different runs; use the same options and model on all nodes. "
                f"Differences: {'; '.join(differences)}"
            )


def _answer_pending(
    folder: RunFolder,
    engine: Engine,
    plan: Sequence[tuple[Prompt, ...]],
    ids: Sequence[str],
    settings: Settings,
    state: DistributedState,
) -> list[dict[str, str]]:
    """Answer what is not on disk yet; return this rank's prompts without an answer, with the reason."""
    on_disk = set().union(*state.all_gather(set(folder.answers(ids)[0]) if state.local_rank == 0 else set()))
    pending = [unit for unit in ([p for p in whole if p.id not in on_disk] for whole in plan) if unit]
    num_done = len(ids) - sum(map(len, pending))
    claimed = claim_next(pending, state.store, state.unique_key("unit"))
    counter = state.unique_key("answers")
    with progress_bar("answers", len(ids), num_done, shown=state.is_main) as progress:

        def answered() -> None:
            on_all_ranks = num_done + state.add(counter, 1) if state.store else progress.n + 1
            progress.update(on_all_ranks - progress.n)

        return _answer(folder, engine, settings, state.rank, (prompt for unit in claimed for prompt in unit), answered)


def _answer(
    folder: RunFolder,
    engine: Engine,
    settings: Settings,
    rank: int,
    prompts: Iterable[Prompt],
    answered: Callable[[], None],
) -> list[dict[str, str]]:
    """Write the answers of prompts to a shard; return those without an answer, with the reason."""
    failures: list[dict[str, str]] = []
    first: list[Answer] = []
    with closing(folder.shard(rank)) as shard:
        for prompt, answer in engine.stream(prompts, settings.seed):
            if isinstance(answer, Failure):
                failures.append({"id": prompt.id, "reason": answer.reason})
            else:
                shard.append([_prediction(prompt, answer)])
                if not settings.allow_empty and len(first) < _FIRST_ANSWERS:
                    first.append(answer)
                    _check_not_empty(first)
            answered()
    return failures


def _check_not_empty(first: Sequence[Answer]) -> None:
    """Stop a model that thinks until its limit, before it has done so for thousands of records."""
    empty = sum(not answer.text and answer.finish_reason == "length" for answer in first)
    if len(first) == _FIRST_ANSWERS and empty > _FIRST_ANSWERS / 3:
        raise H2HTalkError(
            f"{empty} of the first {_FIRST_ANSWERS} answers are empty: the model reached the limit of new tokens "
            "while it was thinking. Use another --out with more tokens (--thinking-tokens 2048) or without thinking "
            """(--chat-template-kwargs '{"enable_thinking": false}'), or continue this run with --allow-empty"""
        )


def _prediction(prompt: Prompt, answer: Answer) -> dict[str, Any]:
    return {
        "id": prompt.id,
        "prediction": answer.text,
        "task": prompt.task,
        "finish_reason": answer.finish_reason,
        "prompt_tokens": answer.prompt_tokens,
        "new_tokens": answer.new_tokens,
        **({"reasoning": answer.reasoning} if answer.reasoning is not None else {}),
    }


def _check_no_failures(failures: list[dict[str, str]], folder: RunFolder, state: DistributedState) -> None:
    of_all_ranks = [failure for part in state.all_gather(failures) for failure in part]
    if state.is_main:
        folder.write_failures(of_all_ranks)
    if of_all_ranks:
        raise H2HTalkError(
            f"{len(of_all_ranks)} prompts have no answer, all other answers are on disk; run the same command to send "
            f"them again. The reasons are in {folder.path / 'failures.jsonl'}, the first: {of_all_ranks[0]['reason']}"
        )
