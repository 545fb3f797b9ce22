"""The model of a run, called again with the settings of the run."""

__all__ = ["answer_probes", "check_answered_alike", "check_same_model", "open_prompts", "probe_settings", "sap_option"]

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.generation.config import Settings, text_hash
from h2htalk_datasets.generation.distributed.state import DistributedState
from h2htalk_datasets.generation.engines.base import Prompt
from h2htalk_datasets.generation.engines.make import make_engine
from h2htalk_datasets.generation.engines.models import DEMO
from h2htalk_datasets.generation.requests import chosen_probes
from h2htalk_datasets.generation.run import generate, prompts_of_settings, records_of_settings
from h2htalk_datasets.generation.run_folder import RunFolder
from h2htalk_datasets.prompts import SAP
from h2htalk_metric.probes.rollout import (
    Heard,
    answer_rollout,
    own_answer,
    turn_of,
    turns_folder,
    with_earlier_turns,
)
from h2htalk_metric.runs.run import Run


def probe_settings(
    run: Run,
    *,
    probe: str,
    sap: str = "all",
    persona_text: str = "",
    limit: int | None = None,
    base_url: str | None = None,
    trust_remote_code: bool = False,
    devices_per_replica: int = 1,
) -> Settings:
    """The settings with which a run's model answers a probe set as it answered the run.

    Args:
        run: the run.
        probe: name of the probe set.
        sap: ``all``, ``none``, or principles separated by commas.
        persona_text: follows the principles; empty for none.
        limit: records of the set; None for all.
        base_url: of the model's server, if it is not the one in the manifest.
        trust_remote_code: not recorded in a manifest.
        devices_per_replica: not recorded in a manifest.

    """
    model, generation = run.manifest["model"], run.manifest["generation"]
    hosted = model["engine"] == "openai"
    local = model["name"] == DEMO or Path(model["name"]).is_dir()
    loading = {} if hosted else {"dtype": model["dtype"]}
    if model["engine"] == "transformers":
        loading["attention"] = model["attention"]
    return Settings(
        model=model["name"],
        probe=probe,
        sap=sap,
        persona_text=persona_text,
        limit=limit,
        **{key: generation[key] for key in ("temperature", "top_p", "seed", "thinking_tokens")},
        chat_template_kwargs=json.dumps(generation.get("chat_template_kwargs", {})),
        **loading,
        revision=None if hosted or local or model["revision"] == "unknown" else model["revision"],
        adapter=(model.get("adapter") or "").rpartition("@")[0] or None,
        fold_system=model.get("fold_system", False),
        engine=model["engine"],
        deterministic=model.get("deterministic", False),
        base_url=base_url or model.get("server"),
        trust_remote_code=trust_remote_code,
        devices_per_replica=devices_per_replica,
    )


def sap_option(run: Run) -> str:
    """The persona of a run as a value of ``--sap``."""
    principles = run.manifest["prompts"]["sap"]
    return "all" if set(principles) == set(SAP) else ",".join(principles) or "none"


def answer_probes(
    run: Run, settings: Mapping[Path, Settings], *, rollout: bool = False, heard: Heard = own_answer
) -> None:
    """Let the run's model answer into one run folder per settings; complete folders are left as they are.

    Args:
        run: the run.
        settings: by folder.
        rollout: let the model hear its own earlier answers instead of the references.
        heard: in a roll-out, what the model hears as its earlier answers.

    Raises:
        H2HTalkError: a folder was made with other settings, or the model is not the run's any more.

    """
    check_answered_alike(settings)
    pending = {folder: of_folder for folder, of_folder in settings.items() if not Run(folder).complete}
    if not pending:
        return
    state = DistributedState()
    engine = make_engine(next(iter(pending.values())), state)
    check_same_model(run.manifest["model"], engine.identity())
    for folder, of_folder in pending.items():
        print(f"{folder}:")
        folder.parent.mkdir(parents=True, exist_ok=True)
        if rollout:
            answer_rollout(of_folder, folder, state, engine, heard)
        else:
            generate(of_folder, folder, state, engine=engine)


def open_prompts(folder: Path, settings: Settings, *, rollout: bool = False) -> list[Prompt]:
    """The prompts that a probe would send; in a roll-out with references in place of the model's own answers.

    Args:
        folder: of the answers; complete ones need none.
        settings: of the answers.
        rollout: whether earlier turns are answered too.

    """
    if Run(folder).complete:
        return []
    records: Sequence[Mapping[str, Any]] = records_of_settings(settings)
    folders = [folder]
    if rollout:
        records = with_earlier_turns(records, chosen_probes(str(settings.probe)))
        folders = [turns_folder(folder) / str(number) for number in sorted(set(map(turn_of, records)))]
    prompts = prompts_of_settings(settings, records)
    ids = [prompt.id for prompt in prompts]
    answered = {identity for each in folders for identity in RunFolder(each).answers(ids)[0]}
    return [prompt for prompt in prompts if prompt.id not in answered]


def check_same_model(recorded: Mapping[str, Any], loaded: Mapping[str, Any]) -> None:
    """Check that a model is the run's; it may run on another device or server.

    Raises:
        H2HTalkError: it is not; names the differences.

    """
    keys = (recorded.keys() | loaded.keys()) - {"device", "server"}
    differences = [
        f"{key}: {recorded.get(key)} -> {loaded.get(key)}"
        for key in sorted(keys)
        if recorded.get(key) != loaded.get(key)
    ]
    if differences:
        raise H2HTalkError(f"this is not the model of the run any more. Differences: {'; '.join(differences)}")


def check_answered_alike(settings: Mapping[Path, Settings]) -> None:
    """Check that what is in the folders already was made with these settings' limit and persona text.

    Raises:
        H2HTalkError: it was not; names the folder.

    """
    for folder, of_folder in settings.items():
        run = next((run for run in map(Run, (folder, turns_folder(folder) / "1")) if run.folder.exists), None)
        if run is None:
            continue
        recorded = run.manifest["dataset"]["limit"]
        if recorded != of_folder.limit:
            option = "without --limit" if recorded is None else f"with --limit {recorded}"
            raise H2HTalkError(f"{folder} was made {option}; use the same limit, or move the folder away")
        text = of_folder.persona_text
        if run.manifest["prompts"].get("persona_text") != (text_hash(text) if text else None):
            raise H2HTalkError(f"{folder} was made with another persona text; use the same, or move the folder away")
