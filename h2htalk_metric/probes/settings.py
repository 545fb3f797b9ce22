"""Asking a run's model once more, as the run had it."""

__all__ = ["refuse_other_model", "sap_of", "settings_of"]

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.generation.engines.models import DEMO
from h2htalk_datasets.generation.run import Settings
from h2htalk_datasets.prompts import SAP


def settings_of(
    manifest: Mapping[str, Any],
    *,
    probe: str,
    sap: str = "all",
    limit: int | None = None,
    server: str | None = None,
    trust_remote_code: bool = False,
    devices_per_replica: int = 1,
) -> Settings:
    """The settings under which a run's model answers a probe set as it answered the run.

    Args:
        manifest: of the run.
        probe: the set's name.
        sap: ``all``, ``none``, or principles joined by commas.
        limit: records of the set.
        server: address of the model's server, where it isn't that of the manifest.
        trust_remote_code: what no manifest holds.
        devices_per_replica: likewise.

    """
    model, generation = manifest["model"], manifest["generation"]
    hosted = model["engine"] == "openai"
    local = model["name"] == DEMO or Path(model["name"]).is_dir()
    fixed = {} if hosted else {"dtype": model["dtype"], "attention": model["attention"]}
    return Settings(
        model=model["name"],
        probe=probe,
        sap=sap,
        limit=limit,
        batch_size=generation["batch_size"],
        **{key: generation[key] for key in ("temperature", "top_p", "seed", "thinking_tokens")},
        **fixed,
        revision=None if hosted or local or model["revision"] == "unknown" else model["revision"],
        adapter=(model.get("adapter") or "").rpartition("@")[0] or None,
        fold_system=model.get("fold_system", False),
        base_url=server or model.get("server"),
        trust_remote_code=trust_remote_code,
        devices_per_replica=devices_per_replica,
    )


def refuse_other_model(wanted: Mapping[str, Any], loaded: Mapping[str, Any]) -> None:
    """Refuse a model that is not the run's; where it runs is no part of what it is.

    Raises:
        H2HTalkError: it isn't, and in what.

    """
    keys = (wanted.keys() | loaded.keys()) - {"device", "server"}
    changed = [
        f"{key}: {wanted.get(key)} -> {loaded.get(key)}" for key in sorted(keys) if wanted.get(key) != loaded.get(key)
    ]
    if changed:
        raise H2HTalkError(f"this is not the model of the run any more; different: {'; '.join(changed)}")


def sap_of(manifest: Mapping[str, Any]) -> str:
    """The persona of a run as the setting that made it."""
    kept = manifest["prompts"]["sap"]
    return "all" if set(kept) == set(SAP) else ",".join(kept) or "none"
