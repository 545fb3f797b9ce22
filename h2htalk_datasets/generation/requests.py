"""From records to prompt requests: which records a run has, and what the model gets for each of them."""

__all__ = [
    "chosen_probes",
    "chosen_rows",
    "data_of",
    "languages_of",
    "principles_of",
    "prompt_of",
    "prompts_hash",
    "records_of_manifest",
    "templates_of",
]

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.fingerprint import fingerprint
from h2htalk_datasets.generation.engines.base import Prompt
from h2htalk_datasets.languages import select_languages
from h2htalk_datasets.loading import records_of
from h2htalk_datasets.own_data import OwnData, load_data
from h2htalk_datasets.probes import load_probe
from h2htalk_datasets.prompts import render, render_memory, render_probe
from h2htalk_datasets.tasks import MEMORY, PLANNING, PROBE_SETS, TASKS, select_tasks

_PROBE_MAX_NEW_TOKENS = 192  # references of the probe sets have at most 80 words
_PLANNING_MAX_NEW_TOKENS = 384  # a plan has up to ten lines of some 25 tokens
_MEMORY_MAX_NEW_TOKENS = 144  # an answer to a question of CompanionMemory has at most 60 words


def chosen_rows(
    tasks: str = "all", limit: int | None = None, language: str | None = None, data: OwnData | None = None
) -> list[dict[str, Any]]:
    """Return the records of the given tasks.

    Args:
        tasks: config names separated by commas, or ``all``.
        limit: records per task and language, evenly spaced over the task; None for all.
        language: codes of languages separated by commas; None: English, or all languages of `data`.
        data: what to take the records from; None: the shipped data.

    Returns:
        Records, language by language, and task by task in the order of :data:`h2htalk_datasets.TASKS`.

    Raises:
        H2HTalkError: a task or a language is unknown, the limit is below 1, or `data` has no such records.

    """
    languages = select_languages(language or (data.languages if data else "en"))
    source = data.records_of if data else records_of
    rows = [
        row
        for chosen in languages
        for task in select_tasks(tasks)
        for row in _evenly_spaced(source(task.name, chosen.code), limit)
    ]
    if data and not rows:
        raise H2HTalkError(f"{data.source} has no records of {tasks} in {', '.join(one.code for one in languages)}")
    return rows


def chosen_probes(name: str, limit: int | None = None) -> list[dict[str, Any]]:
    """Return the records of a probe set.

    Args:
        name: of the set, see :data:`h2htalk_datasets.tasks.PROBE_SETS`.
        limit: records, evenly spaced over the set; each brings its explicit control with it. Of CompanionPlanning
            scenarios, each with both turns. None for all.

    Raises:
        H2HTalkError: the limit is below 1.

    """
    rows = list(load_probe(name))
    if name == PLANNING:
        scenarios = set(_evenly_spaced([row["scenario"] for row in rows if row["turn"] == 1], limit))
        return [row for row in rows if row["scenario"] in scenarios]
    chosen = _evenly_spaced([row for row in rows if row["kind"] != "explicit"], limit)
    ids = {row["id"] for row in chosen} | {row["explicit_control"] for row in chosen}
    return [row for row in rows if row["id"] in ids]


def records_of_manifest(manifest: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the records that a run's manifest names, from the installed dataset."""
    dataset = manifest["dataset"]
    tasks, limit = dataset["tasks"], dataset["limit"]
    if tasks[0] in PROBE_SETS:
        return chosen_probes(tasks[0], limit)
    return chosen_rows(",".join(tasks), limit, ",".join(languages_of(manifest)), data_of(manifest))


def data_of(manifest: Mapping[str, Any]) -> OwnData | None:
    """The records of its own that a run answers; None if it answers shipped records.

    Raises:
        H2HTalkError: they are not where they were.

    """
    data = manifest["dataset"].get("data")
    return load_data(data["source"]) if data else None


def templates_of(manifest: Mapping[str, Any]) -> str | None:
    """Folder of the prompt templates that a run used in place of the shipped ones, or None."""
    return manifest["prompts"].get("templates", {}).get("source")


def languages_of(manifest: Mapping[str, Any]) -> dict[str, str]:
    """Code of each language of a run to the fingerprint of its records; runs of older versions are English."""
    dataset = manifest["dataset"]
    return dataset.get("languages", {"en": dataset["fingerprint"]})


def principles_of(sap: str) -> bool | set[str]:
    """Convert the value of ``--sap`` to what :func:`h2htalk_datasets.prompts.render` takes."""
    if sap in ("all", "none"):
        return sap == "all"
    return {name.strip() for name in sap.split(",") if name.strip()}


def prompt_of(
    row: Mapping[str, Any],
    sap: bool | set[str],
    thinking_tokens: int = 0,
    persona_text: str = "",
    templates: str | None = None,
) -> Prompt:
    """Return the prompt of a record.

    Args:
        row: a record of a task, of a probe set, or a question of CompanionMemory with its context.
        sap: principles of the persona, see :func:`principles_of`.
        thinking_tokens: added to the task's limit of new tokens.
        persona_text: of a probe only, see :func:`h2htalk_datasets.prompts.render_probe`.
        templates: of a record of a task only, see :func:`h2htalk_datasets.prompts.render`.

    """
    if "probe" in row:
        messages = render_probe(row, sap, persona_text)
        limit = _PLANNING_MAX_NEW_TOKENS if row["probe"] == PLANNING else _PROBE_MAX_NEW_TOKENS
        limit += thinking_tokens
        return Prompt(row["id"], row["probe"], row["probe"], tuple(messages), limit)
    if "context" in row:
        limit = _MEMORY_MAX_NEW_TOKENS + thinking_tokens
        return Prompt(row["id"], MEMORY, row["relationship"], tuple(render_memory(row, sap)), limit)
    limit = TASKS[row["task"]].max_new_tokens[row["language"]] + thinking_tokens
    return Prompt(row["id"], row["task"], row["relationship"], tuple(render(row, sap, templates)), limit)


def prompts_hash(prompts: Iterable[Prompt]) -> str:
    """Return the SHA-256 (hex) of ids and messages, in their order."""
    return fingerprint({"id": prompt.id, "messages": prompt.messages} for prompt in prompts)


def _evenly_spaced(rows: Sequence[Any], limit: int | None) -> list[Any]:
    if limit is not None and limit < 1:
        raise H2HTalkError(f"--limit must be at least 1, got {limit}")
    count = min(limit or len(rows), len(rows))
    return [rows[index * len(rows) // count] for index in range(count)]
