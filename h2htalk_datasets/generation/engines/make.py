"""Choose and create the engine of a run."""

__all__ = ["engine_name", "make_engine"]

import sys
from typing import Any

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.generation.config import EngineName, Settings
from h2htalk_datasets.generation.distributed.state import DistributedState
from h2htalk_datasets.generation.engines.base import Engine
from h2htalk_datasets.prompts import template_arguments


def make_engine(settings: Settings, state: DistributedState) -> Engine:
    """Return the engine of a run: a client of its server, or a model that this process loads.

    Raises:
        H2HTalkError: the model cannot be loaded, the server's address or key is wrong, or options contradict
            each other.

    """
    name = engine_name(settings)
    common: dict[str, Any] = {
        "temperature": settings.temperature,
        "top_p": settings.top_p,
        "fold_system": settings.fold_system,
        "template_arguments": template_arguments(settings.chat_template_kwargs),
    }
    if name == "openai":
        from h2htalk_datasets.generation.chat_client import ChatClient
        from h2htalk_datasets.generation.engines.openai import OpenAIEngine

        client = ChatClient(settings.model, settings.base_url, timeout=settings.timeout)
        return OpenAIEngine(client, max_connections=settings.max_connections, **common)
    _report_idle_gpus(settings.devices_per_replica, state)
    if name == "vllm":
        from h2htalk_datasets.generation.engines.models import gpus_of_replica
        from h2htalk_datasets.generation.engines.vllm import VllmEngine

        return VllmEngine(
            settings.model,
            revision=settings.revision,
            dtype=settings.dtype,
            adapter=settings.adapter,
            devices=gpus_of_replica(settings.devices_per_replica),
            trust_remote_code=settings.trust_remote_code,
            rows=settings.batch_size,
            deterministic=settings.deterministic,
            **common,
        )
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
    return TransformersEngine(loaded, rows=settings.batch_size, ranks=max(settings.jobs, state.world_size), **common)


def engine_name(settings: Settings) -> EngineName:
    """Return the engine that the settings ask for.

    Raises:
        H2HTalkError: options contradict each other.

    """
    name = settings.engine or ("transformers" if settings.base_url is None else "openai")
    if (name == "openai") != (settings.base_url is not None):
        raise H2HTalkError(f"--engine {name} {'needs' if name == 'openai' else 'does not take'} --base-url")
    if settings.deterministic and name != "vllm":
        raise H2HTalkError(
            "--deterministic is for --engine vllm; answers of the Transformers engine never depend on other prompts"
        )
    if settings.devices_per_replica > 1 and settings.engine is None and name == "transformers":
        raise H2HTalkError(
            "with --devices-per-replica, --engine transformers computes on one GPU of the replica after the other; use "
            "--engine vllm (pip install 'h2htalk[vllm]'), which uses all at once, or name --engine transformers"
        )
    return name


def _report_idle_gpus(used: int, state: DistributedState) -> None:
    """Say that a single process leaves other GPUs of the machine idle."""
    import torch

    if state.world_size == 1 and (available := torch.cuda.device_count()) > used:
        print(
            f"using {used} of {available} GPUs; to use all: accelerate launch --multi_gpu --num_processes "
            f"{available // used} -m h2htalk_datasets.generation ...",
            file=sys.stderr,
        )
