"""Answer the benchmark with a model, into a run folder, on as many ranks as were launched."""

__all__ = ["generate", "make_engine", "prompts_of_settings", "records_of_settings"]

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.generation.config import Settings, build_manifest
from h2htalk_datasets.generation.distributed.queue import claim_next
from h2htalk_datasets.generation.distributed.state import DistributedState
from h2htalk_datasets.generation.engines.base import Answer, Engine, Failure, Prompt
from h2htalk_datasets.generation.engines.plan import BatchSpec, make_plan
from h2htalk_datasets.generation.node_disks import merge_all_disks, open_on_all_disks
from h2htalk_datasets.generation.requests import chosen_probes, chosen_rows, principles_of, prompt_of
from h2htalk_datasets.generation.run_folder import RunFolder, flatten
from h2htalk_datasets.progress import progress_bar


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
    # Only rank 0 looks before the folder is created: a network file system may cache on other nodes that it is absent.
    if state.is_main:
        folder.check_path()
    engine = engine or make_engine(settings, state)
    lengths = engine.prepare(prompts)
    # These decide what a rank does next; with different values the ranks would wait for each other forever.
    _check_same_on_all_ranks({"batch_size": settings.batch_size, "base_url": settings.base_url is not None}, state)
    batch_size = 1 if settings.base_url else settings.batch_size or _fitting_batch_size(folder, engine, state)
    manifest = build_manifest(
        settings, batch_size=batch_size, records=records, prompts=prompts, model=engine.identity()
    )
    _check_same_on_all_ranks(manifest, state)
    plan = make_plan(prompts, lengths, batch_size)
    ids = [record["id"] for record in records]
    locked = open_on_all_disks(folder, manifest, ids, state)
    try:
        failures = _answer_pending(folder, engine, plan, prompts, settings.seed, state)
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


def make_engine(settings: Settings, state: DistributedState) -> Engine:
    """Return the engine of a run: a client of its server, or a model loaded in this process.

    Raises:
        H2HTalkError: the model cannot be loaded, or the server's address or key is wrong.

    """
    sampling: dict[str, Any] = {
        "temperature": settings.temperature,
        "top_p": settings.top_p,
        "fold_system": settings.fold_system,
    }
    if settings.base_url is not None:
        from h2htalk_datasets.generation.chat_client import ChatClient
        from h2htalk_datasets.generation.engines.openai import OpenAIEngine

        client = ChatClient(settings.model, settings.base_url, timeout=settings.timeout)
        return OpenAIEngine(client, max_connections=settings.max_connections, **sampling)
    from h2htalk_datasets.generation.engines.models import load_model
    from h2htalk_datasets.generation.engines.transformers import TransformersEngine

    loaded = load_model(
        settings.model,
        revision=settings.revision,
        dtype=settings.dtype,
        device=state.device,
        attention=settings.attention,
        adapter=settings.adapter,
        devices_per_replica=settings.devices_per_replica,
        trust_remote_code=settings.trust_remote_code,
    )
    return TransformersEngine(loaded, **sampling)


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


def _fitting_batch_size(folder: RunFolder, engine: Engine, state: DistributedState) -> int:
    """Return the batch size in the run's manifest, or what fits into memory on every rank."""
    recorded = folder.manifest()["generation"]["batch_size"] if state.is_main and folder.exists else None
    return state.broadcast(recorded) or min(state.all_gather(engine.max_batch_size()))


def _answer_pending(
    folder: RunFolder,
    engine: Engine,
    plan: Sequence[BatchSpec],
    prompts: Sequence[Prompt],
    seed: int,
    state: DistributedState,
) -> list[dict[str, str]]:
    """Answer what is not on disk yet; return this rank's prompts without an answer, with the reason."""
    by_id = {prompt.id: prompt for prompt in prompts}
    on_disk = set().union(*state.all_gather(set(folder.answers(by_id)[0]) if state.local_rank == 0 else set()))
    # A batch that is partly on disk is answered again in full, because its answers depend on the whole batch.
    pending = [spec for spec in plan if not on_disk.issuperset(spec.ids)]
    num_done = len(by_id) - sum(len(spec.ids) for spec in pending)
    claimed = claim_next(pending, state.store, state.unique_key("batch"))
    shard, counter = folder.shard(state.rank), state.unique_key("answers")
    failures: list[dict[str, str]] = []
    with progress_bar("answers", len(by_id), num_done, shown=state.is_main) as progress:
        for batch, answers in engine.stream(spec.batch(by_id, seed) for spec in claimed):
            pairs = list(zip(batch.prompts, answers, strict=True))
            shard.append([_prediction(prompt, answer) for prompt, answer in pairs if isinstance(answer, Answer)])
            failures += [{"id": p.id, "reason": a.reason} for p, a in pairs if isinstance(a, Failure)]
            on_all_ranks = num_done + state.add(counter, len(pairs)) if state.store else progress.n + len(pairs)
            progress.update(on_all_ranks - progress.n)
    shard.close()
    return failures


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
