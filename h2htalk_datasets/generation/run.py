"""Answer the benchmark with a model, into a run folder, on as many ranks as were launched."""

__all__ = [
    "Settings",
    "chosen_probes",
    "chosen_rows",
    "generate",
    "make_engine",
    "principles_of",
    "prompt_of",
    "rows_of_run",
]

import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.fingerprint import fingerprint
from h2htalk_datasets.generation.distributed.queue import Group, take
from h2htalk_datasets.generation.engines.base import Answer, Engine, Failure, Prompt
from h2htalk_datasets.generation.engines.plan import Batch, make_plan
from h2htalk_datasets.generation.run_folder import RunFolder, flat
from h2htalk_datasets.loading import load
from h2htalk_datasets.probes import PROBES, load_probe
from h2htalk_datasets.progress import Progress
from h2htalk_datasets.prompts import SAP, render, render_probe
from h2htalk_datasets.tasks import TASKS, select_tasks

_PROBE_ROOM = 192  # tokens for an answer to a probe, whose references have at most 80 words


@dataclass(frozen=True)
class Settings:
    """What a run is asked to do; all that may change an answer stands in the manifest.

    Attributes:
        model: ``demo``, a folder, or a Hub id.
        tasks: ``all``, or names joined by commas.
        limit: records per task, drawn evenly over the config; None for all.
        sap: ``all``, ``none``, or principles joined by commas.
        batch_size: prompts a batch; None for what memory holds, found at the run's first start. A server is always
            asked for one answer at a time, each of which stands by itself.
        temperature: 0 for greedy.
        top_p: nucleus of sampling, 0..1.
        seed: of sampling.
        revision: of a Hub model.
        dtype: of the weights; ``auto`` is float32 on a CPU.
        fold_system: for models without a system role.
        trust_remote_code: run code from the model's repository.
        thinking_tokens: room for thoughts, beside the room for the answer.
        attention: attention implementation; None is the model's own choice.
        adapter: LoRA adapter on top of the model.
        devices_per_replica: GPUs that one rank spreads its model over.
        base_url: of an OpenAI-compatible server that has the model; None to load it here.
        in_flight: requests to the server at once.
        timeout: seconds that one try of a request may take.
        probe: a probe set that is asked in place of the tasks, or None.

    """

    model: str
    tasks: str = "all"
    limit: int | None = None
    sap: str = "all"
    batch_size: int | None = None
    temperature: float = 0.0
    top_p: float = 1.0
    seed: int = 0
    revision: str | None = None
    dtype: str = "auto"
    fold_system: bool = False
    trust_remote_code: bool = False
    thinking_tokens: int = 0
    attention: str | None = None
    adapter: str | None = None
    devices_per_replica: int = 1
    base_url: str | None = None
    in_flight: int = 16
    timeout: float = 120.0
    probe: str | None = None


def generate(
    settings: Settings,
    out: str | Path,
    group: Group | None = None,
    split: str = "queue",
    engine: Engine | None = None,
) -> Path:
    """Generate all answers of a run, going on where an earlier attempt stopped.

    In a job of several ranks, call it within a
    :class:`~h2htalk_datasets.generation.distributed.watchdog.Watch`: then a rank that fails ends all.

    Args:
        settings: what to ask which model.
        out: the run folder; made if it doesn't exist.
        group: the ranks of the job; found if not given.
        split: ``queue``, or ``static`` for batches dealt out beforehand, to compare; the answers are the same.
        engine: what :func:`make_engine` made of the same settings, for several runs of one model; made if not given.

    Returns:
        The folder's ``predictions.jsonl``.

    Raises:
        H2HTalkError: settings are wrong, the folder holds something else, or some prompts got no answer.

    """
    rows = (
        chosen_probes(settings.probe, settings.limit) if settings.probe else chosen_rows(settings.tasks, settings.limit)
    )
    prompts = [prompt_of(row, principles_of(settings.sap), settings.thinking_tokens) for row in rows]
    folder = RunFolder(out)
    group = group or Group()
    # Only rank 0 looks before the folder is made: another node's file system would remember for a while that it wasn't.
    if group.first:
        folder.refuse_foreign()
    engine = engine or make_engine(settings, group)
    lengths = engine.prepare(prompts)
    # First what decides how the ranks go on from here: where it differs they would wait for each other in vain.
    asked = {"batch_size": settings.batch_size, "split": split, "base_url": settings.base_url is not None}
    _refuse_other_manifests(asked, group)
    size = 1 if settings.base_url else settings.batch_size or _found_batch_size(folder, engine, group)
    plan = make_plan(prompts, lengths, size)
    manifest = _manifest(settings, size, rows, prompts, engine)
    _refuse_other_manifests(manifest, group)
    ids = [row["id"] for row in rows]
    opener = _open_on_every_disk(folder, manifest, ids, group)
    try:
        failures = _work(folder, engine, plan, prompts, settings.seed, group, split)
        _refuse_failures(failures, folder, group)
        return _finish(folder, ids, group)
    finally:
        if opener:
            folder.unlock()


def chosen_rows(tasks: str = "all", limit: int | None = None) -> list[dict[str, Any]]:
    """The records of a run in the table's order; `limit` draws them evenly over each config."""
    if limit is not None and limit < 1:
        raise H2HTalkError(f"--limit must be at least 1, got {limit}")
    rows: list[dict[str, Any]] = []
    for task in select_tasks(tasks):
        data = load(task.name)
        count = min(limit or len(data), len(data))
        rows.extend(data[index * len(data) // count] for index in range(count))
    return rows


def chosen_probes(name: str, limit: int | None = None) -> list[dict[str, Any]]:
    """The records of a probe set; `limit` draws them evenly, and a record brings its explicit twin along."""
    if limit is not None and limit < 1:
        raise H2HTalkError(f"--limit must be at least 1, got {limit}")
    rows = list(load_probe(name))
    own = [row["id"] for row in rows if row["twin_of"] is None]
    count = min(limit or len(own), len(own))
    drawn = {own[index * len(own) // count] for index in range(count)}
    return [row for row in rows if (row["twin_of"] or row["id"]) in drawn]


def rows_of_run(manifest: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The records that a run's manifest names, out of the installed dataset."""
    tasks, limit = manifest["dataset"]["tasks"], manifest["dataset"]["limit"]
    return chosen_probes(tasks[0], limit) if tasks[0] in PROBES else chosen_rows(",".join(tasks), limit)


def principles_of(sap: str) -> bool | set[str]:
    """What ``--sap`` says, as :func:`h2htalk_datasets.prompts.render` takes it."""
    if sap in ("all", "none"):
        return sap == "all"
    return {name.strip() for name in sap.split(",") if name.strip()}


def prompt_of(row: Mapping[str, Any], sap: bool | set[str], thinking_tokens: int = 0) -> Prompt:
    """A record as it is asked; its group is the relationship, or the probe set, whose prompts begin alike."""
    if "probe" in row:
        room = _PROBE_ROOM + thinking_tokens
        return Prompt(row["id"], row["probe"], row["probe"], tuple(render_probe(row, sap)), room)
    room = TASKS[row["task"]].max_new_tokens + thinking_tokens
    return Prompt(row["id"], row["task"], row["relationship"], tuple(render(row, sap)), room)


def make_engine(settings: Settings, group: Group) -> Engine:
    """The model of these settings, ready to answer: at its server, or loaded here."""
    if settings.base_url is not None:
        from h2htalk_datasets.generation.chat_client import ChatAPI
        from h2htalk_datasets.generation.engines.openai import OpenAIEngine

        api = ChatAPI(settings.model, settings.base_url, timeout=settings.timeout)
        return OpenAIEngine(
            api,
            temperature=settings.temperature,
            top_p=settings.top_p,
            in_flight=settings.in_flight,
            fold_system=settings.fold_system,
        )
    from h2htalk_datasets.generation.engines.models import load_model
    from h2htalk_datasets.generation.engines.transformers import TransformersEngine

    loaded = load_model(
        settings.model,
        revision=settings.revision,
        dtype=settings.dtype,
        device=group.device,
        attention=settings.attention,
        adapter=settings.adapter,
        devices_per_replica=settings.devices_per_replica,
        trust_remote_code=settings.trust_remote_code,
    )
    return TransformersEngine(
        loaded, temperature=settings.temperature, top_p=settings.top_p, fold_system=settings.fold_system
    )


def _found_batch_size(folder: RunFolder, engine: Engine, group: Group) -> int:
    """The batch size that the run began with, or what memory holds on the smallest rank."""
    begun = folder.manifest()["generation"]["batch_size"] if group.first and folder.begun else None
    return group.gather(begun)[0] or min(group.gather(engine.batch_that_fits()))


def _manifest(
    settings: Settings, batch_size: int, rows: Sequence[dict[str, Any]], prompts: Sequence[Prompt], engine: Engine
) -> dict[str, Any]:
    sampling = {key: asdict(settings)[key] for key in ("temperature", "top_p", "seed", "thinking_tokens")}
    rooms = {prompt.task: prompt.max_new_tokens for prompt in prompts}
    kept = principles_of(settings.sap)
    return {
        "format": 1,
        "dataset": {
            "fingerprint": fingerprint(rows),
            "tasks": [settings.probe] if settings.probe else sorted({r["task"] for r in rows}, key=list(TASKS).index),
            "limit": settings.limit,
            "n": len(rows),
        },
        "prompts": {
            "sap": list(SAP) if kept is True else sorted(kept or ()),
            "hash": fingerprint({"id": prompt.id, "messages": prompt.messages} for prompt in prompts),
        },
        "model": engine.identity(),
        "generation": {"batch_size": batch_size, **sampling, "max_new_tokens": rooms},
        "software": {name: version(name) for name in ("h2htalk", "torch", "transformers")},
    }


def _refuse_other_manifests(manifest: dict[str, Any], group: Group) -> None:
    """Nodes are started by lines of their own and have their own caches of models; all must mean the same run."""
    first, *others = (dict(flat(other)) for other in group.gather(manifest))
    for rank, other in enumerate(others, 1):
        keys = [key for key in sorted(first.keys() | other.keys()) if first.get(key) != other.get(key)]
        if keys:
            told = "; ".join(f"{key}: {first.get(key)} on rank 0, {other.get(key)} on rank {rank}" for key in keys)
            raise H2HTalkError(f"the job's ranks were started for different runs; give all nodes the same. {told}")


def _open_on_every_disk(folder: RunFolder, manifest: dict[str, Any], ids: Sequence[str], group: Group) -> bool:
    """Open the folder on rank 0 and on one rank of each node that has its own; return whether this rank did."""
    if group.first:
        _open(folder, manifest, ids)
    mark = group.gather(folder.mark() if group.first else "")[0]
    own = group.local_rank == 0 and not folder.sees(mark)
    if own:
        _open(folder, manifest, ids)
    group.gather(None)  # nobody writes before every folder is open
    if group.first:
        folder.unmark()
    return group.first or own


def _open(folder: RunFolder, manifest: dict[str, Any], ids: Sequence[str]) -> None:
    folder.open(manifest)
    for note in folder.answers(ids)[1]:
        print(f"set aside and made again: {note}", file=sys.stderr)
    folder.set_damage_aside(ids)


def _work(
    folder: RunFolder,
    engine: Engine,
    plan: Sequence[Batch],
    prompts: Sequence[Prompt],
    seed: int,
    group: Group,
    split: str,
) -> list[dict[str, str]]:
    """Answer what is not on disk yet; return the prompts that got no answer on this rank, with the reason."""
    by_id = {prompt.id: prompt for prompt in prompts}
    done = set().union(*group.gather(set(folder.answers(by_id)[0]) if group.local_rank == 0 else set()))
    # A batch that is only partly on disk is answered whole again: its answers depend on who shares it.
    pending = [batch for batch in plan if not done.issuperset(batch.ids)]
    ready = len(by_id) - sum(len(batch.ids) for batch in pending)
    dealt = pending[group.rank :: group.world_size]
    mine = iter(dealt) if split == "static" else take(pending, group.store, group.key("batch"))
    shard, counted, counter = folder.shard(group.rank), ready, group.key("answers")
    failures: list[dict[str, str]] = []
    with Progress("answers", len(by_id), ready, shown=group.first) as progress:
        for asked, answers in engine.stream(batch.asked(by_id, seed) for batch in mine):
            pairs = list(zip(asked.prompts, answers, strict=True))
            shard.append([_line(prompt, answer) for prompt, answer in pairs if isinstance(answer, Answer)])
            failures += [{"id": p.id, "reason": a.reason} for p, a in pairs if isinstance(a, Failure)]
            counted = ready + group.add(counter, len(pairs)) if group.store else counted + len(pairs)
            progress.update(counted)
    shard.close()
    return failures


def _refuse_failures(mine: list[dict[str, str]], folder: RunFolder, group: Group) -> None:
    failures = [failure for part in group.gather(mine) for failure in part]
    if group.first:
        folder.note_failures(failures)
    if failures:
        raise H2HTalkError(
            f"{len(failures)} prompts got no answer, all others are on disk; the same command asks them again. "
            f"{folder.path / 'failures.jsonl'} has the reasons, the first: {failures[0]['reason']}"
        )


def _line(prompt: Prompt, answer: Answer) -> dict[str, Any]:
    thoughts = {"reasoning": answer.reasoning} if answer.reasoning is not None else {}
    return {
        "id": prompt.id,
        "prediction": answer.text,
        "task": prompt.task,
        "finish_reason": answer.finish_reason,
        "prompt_tokens": answer.prompt_tokens,
        "new_tokens": answer.new_tokens,
        **thoughts,
    }


def _finish(folder: RunFolder, order: Sequence[str], group: Group) -> Path:
    group.gather(None)  # every rank's last batch is on disk
    missing = group.gather(folder.merge(order) if group.first else None)[0]
    if missing:
        missing = _bring(missing, folder, order, group)
    if missing:
        raise H2HTalkError(
            f"{len(missing)} answers are gone from {folder.path}, where this job had written them; "
            "the same command makes them again"
        )
    return folder.predictions_file


def _bring(wanted: Sequence[str], folder: RunFolder, order: Sequence[str], group: Group) -> list[str]:
    """Bring answers from the other nodes' disks to rank 0's folder; return the ids that none of them has."""
    found = folder.answers(wanted)[0] if group.local_rank == 0 and not group.first else {}
    parts = group.gather(found)
    if group.first:
        shard = folder.shard(group.rank)
        shard.append([answer for part in parts for answer in part.values()])
        shard.close()
    return group.gather(folder.merge(order) if group.first else None)[0]
