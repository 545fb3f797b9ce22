"""A run in the schema of Every Eval Ever 0.3 (arXiv 2606.14516): an aggregate file and a line per answer and result.

The files lie where the project's datastore expects them, ``data/h2htalk/DEVELOPER/MODEL/UUID.json`` and
``UUID_samples.jsonl``. The UUID is a digest of the run and its answers, so an export of the same answers has the same
name, also after they were judged. A folder may have the exports of many runs.
"""

__all__ = ["write_every_eval_ever"]

import json
import re
import time
from hashlib import sha256
from pathlib import Path
from typing import Any

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.files import write_atomically
from h2htalk_datasets.generation.chat_client import public_url
from h2htalk_metric.export.every_eval_ever_results import evaluation_results
from h2htalk_metric.export.every_eval_ever_samples import sample_lines
from h2htalk_metric.export.folder import check_replaceable
from h2htalk_metric.export.results import RunResults
from h2htalk_metric.export.schema_texts import as_texts
from h2htalk_metric.export.source import Source
from h2htalk_metric.metrics.tokenizers import clean

_SCHEMA = "0.3.0"
_COLLECTION = "h2htalk"
_MANIFEST = "h2htalk_results.json"


def write_every_eval_ever(results: list[RunResults], out: Path, source: Source) -> list[Path]:
    """Write the aggregate file and the samples of a run, one pair per language.

    Args:
        results: of the run.
        out: the folder above ``data``. An earlier export of the same answers in it is replaced, others stay.
        source: what the run does not tell.

    Returns:
        The aggregate files.

    Raises:
        H2HTalkError: the folder has other files, or the model's id is unknown.

    """
    model_id = _model_id(results[0], source)
    check_replaceable(out, _MANIFEST)
    out.mkdir(parents=True, exist_ok=True)
    write_atomically(out / _MANIFEST, json.dumps({"format": "every-eval-ever", "schema": _SCHEMA}) + "\n")
    return [_write_language(one, out, source, model_id) for one in results]


def _write_language(results: RunResults, out: Path, source: Source, model_id: str) -> Path:
    """Write one pair of files, the aggregate last: it promises the samples."""
    for earlier in out.glob(f"data/*/*/*/{results.uuid}*"):
        earlier.unlink()
    developer, _, model = model_id.partition("/")
    folder = Path("data", _COLLECTION, _path_part(developer), _path_part(model))
    aggregate, samples = folder / f"{results.uuid}.json", folder / f"{results.uuid}_samples.jsonl"
    created = int(time.time())
    evaluation_id = f"{_COLLECTION}{results.suffix}/{model_id}/{created}"
    shared = {"schema_version": _SCHEMA, "evaluation_id": evaluation_id}
    lines = [json.dumps(shared | {"model_id": model_id} | line) for line in sample_lines(results)]
    content = "".join(f"{line}\n" for line in lines).encode()
    (out / folder).mkdir(parents=True, exist_ok=True)
    write_atomically(out / samples, content)
    details = {
        "format": "jsonl",
        "file_path": samples.as_posix(),
        "hash_algorithm": "sha256",
        "checksum": sha256(content).hexdigest(),
        "total_rows": len(lines),
    }
    log = shared | {"retrieved_timestamp": str(created)} | _aggregate(results, source, model_id)
    log["detailed_evaluation_results"] = details
    write_atomically(out / aggregate, json.dumps(log, indent=1, ensure_ascii=False, allow_nan=False) + "\n")
    return out / aggregate


def _aggregate(results: RunResults, source: Source, model_id: str) -> dict[str, Any]:
    signature = results.judged.signature if results.judged else results.scores.signature
    return {
        "evaluation_timestamp": results.answered.isoformat(timespec="seconds"),
        "source_metadata": {
            "source_name": "H2HTalk",
            "source_type": "evaluation_run",
            "source_organization_name": source.organization,
            "evaluator_relationship": source.relationship,
        },
        "eval_library": {
            "name": "h2htalk",
            "version": str(signature["h2htalk"]),
            "additional_details": as_texts(signature),
        },
        "model_info": _model_info(results, source, model_id),
        "evaluation_results": evaluation_results(results, source.benchmark),
    }


def _model_info(results: RunResults, source: Source, model_id: str) -> dict[str, Any]:
    manifest = results.run.manifest
    model, engine = manifest["model"], manifest["model"].get("engine", "unknown")
    server = model.get("server")
    deployment = source.deployment or "self_deployed"
    if not source.deployment and engine == "openai":
        deployment = "externally_managed" if server == public_url(None) else "unknown"
    versions = manifest.get("software", {}) | {"vllm": model.get("vllm")}
    details = as_texts(model) | {"deployment_type": deployment, "model_availability": source.availability}
    info = {
        "name": clean(results.run.model),
        "id": model_id,
        "developer": source.developer or model_id.partition("/")[0],
        "inference_engine": {"name": engine, "version": str(versions.get(engine) or "unknown")},
        "additional_details": details,
    }
    return info | ({"inference_platform": server} if server else {})


def _model_id(results: RunResults, source: Source) -> str:
    """The id of what was evaluated: of the adapter, if the run has one."""
    model = results.run.manifest["model"]
    adapter = str(model.get("adapter") or "").rpartition("@")[0]
    name = source.model_id or adapter or str(model["name"])
    if source.developer and "/" not in name:
        name = f"{source.developer}/{name}"
    is_id = re.fullmatch(r"[A-Za-z0-9][\w.:-]*(/[A-Za-z0-9][\w.:-]*)+", name, re.ASCII)
    parts = name.lower().split("/")
    if not is_id or {"unknown", "data"} & set(parts) or (not source.model_id and Path(name).is_dir()):
        raise H2HTalkError(f"the id of the model {name!r} is not known; name it with --model-id DEVELOPER/MODEL")
    return name


def _path_part(name: str) -> str:
    """The folder of a developer or model, as the datastore writes it."""
    return name.replace(":", "_").replace("/", "_").rstrip(".")
