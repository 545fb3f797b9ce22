"""A probe set turn by turn: the model hears its own earlier answers, not the references.

The user turns of a scenario are fixed. All conversations advance together, one run per turn, so that batches stay full:

FOLDER/turns/1/, 2/, ...     a run each; its prompts have the answers of the runs before it
FOLDER/run.json              the manifest, written when all turns are answered
FOLDER/predictions.jsonl     the answers in the order of the records, each with the `history` that it was given for
"""

__all__ = ["Heard", "answer_rollout", "own_answer", "turn_of", "turns_folder", "with_answers", "with_earlier_turns"]

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from h2htalk_datasets.files import write_atomically
from h2htalk_datasets.generation.config import Settings, build_manifest
from h2htalk_datasets.generation.distributed.state import DistributedState
from h2htalk_datasets.generation.engines.base import Engine
from h2htalk_datasets.generation.requests import chosen_probes
from h2htalk_datasets.generation.run import generate, prompts_of_settings
from h2htalk_metric.runs.run import Run

Record = Mapping[str, Any]
"""A record of a probe set."""


Heard = Callable[[Record, str], str]
"""From a record and the model's answer to it to what the model hears as its answer in later turns."""


def own_answer(record: Record, answer: str) -> str:
    """The model hears what it answered."""
    return answer


def answer_rollout(
    settings: Settings, folder: Path, state: DistributedState, engine: Engine, heard: Heard = own_answer
) -> None:
    """Let a model answer a probe set turn by turn; continues where an earlier attempt stopped.

    Args:
        settings: with the probe set, its limit, and the persona.
        folder: of the answers; created if it does not exist.
        state: the ranks of the job.
        engine: of the settings' model.
        heard: what the model hears as its earlier answers.

    Raises:
        H2HTalkError: as for :func:`h2htalk_datasets.generation.run.generate`.

    """
    records = chosen_probes(str(settings.probe), settings.limit)
    all_turns = with_earlier_turns(records, chosen_probes(str(settings.probe)))
    predictions: dict[str, dict[str, Any]] = {}
    for number in range(1, max(map(turn_of, all_turns)) + 1):
        turn = [
            with_answers(record, all_turns, predictions, heard) for record in all_turns if turn_of(record) == number
        ]
        run = Run(turns_folder(folder) / str(number))
        run.path.parent.mkdir(parents=True, exist_ok=True)
        generate(settings, run.path, state, engine=engine, records=turn)
        predictions |= {line["id"]: line for line in run.predictions}
    if state.is_main:
        answered = [with_answers(record, all_turns, predictions, heard) for record in records]
        _write(folder, settings, records, answered, predictions)


def with_earlier_turns(records: Iterable[Record], all_records: Sequence[Record]) -> list[Record]:
    """The records, and those whose answers are heard in them, in the order of the probe set."""
    wanted = {key for record in records for key in _keys(record)}
    return [record for record in all_records if _keys(record)[-1] in wanted]


def with_answers(
    record: Record,
    all_turns: Iterable[Record],
    predictions: Mapping[str, Mapping[str, Any]],
    heard: Heard = own_answer,
) -> Record:
    """The record with the model's own answers in place of the companion's turns.

    Args:
        record: a record of the probe set.
        all_turns: the records whose answers are heard; they have fewer turns.
        predictions: prediction lines by id.
        heard: what the model hears as its earlier answers.

    """
    by_key = {_keys(other)[-1]: other for other in all_turns}
    earlier = [by_key[key] for key in _keys(record)[:-1]]
    answers = iter([heard(other, predictions[other["id"]]["prediction"]) for other in earlier])
    history = [
        turn if turn["role"] == "user" else {"role": "companion", "content": next(answers)}
        for turn in record["history"]
    ]
    return {**record, "history": history}


def turn_of(record: Record) -> int:
    """Number of the user's turn that a record ends with, from 1."""
    return len(_keys(record))


def turns_folder(folder: Path) -> Path:
    """Where the runs of single turns are."""
    return folder / "turns"


def _keys(record: Record) -> list[tuple[str, ...]]:
    """The record's scenario and user turns up to each of these turns; the last key is the record's own."""
    said = [turn["content"] for turn in record["history"] if turn["role"] == "user"]
    return [(record["scenario"], *said[:number]) for number in range(1, len(said) + 1)]


def _write(
    folder: Path,
    settings: Settings,
    records: Sequence[Record],
    answered: Sequence[Record],
    predictions: Mapping[str, Mapping[str, Any]],
) -> None:
    """Write manifest and predictions; the predictions last, because they make the run complete."""
    first = Run(turns_folder(folder) / "1").manifest
    manifest = build_manifest(
        settings,
        records=records,
        prompts=prompts_of_settings(settings, answered),
        model=first["model"],
    )
    manifest["dataset"]["rollout"] = True
    lines = [{**predictions[record["id"]], "history": record["history"]} for record in answered]
    write_atomically(folder / "run.json", json.dumps(manifest, indent=1, ensure_ascii=False) + "\n")
    write_atomically(
        folder / "predictions.jsonl", "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    )
