"""The options of a run, each declared once, and the manifest that records what decides its answers."""

__all__ = [
    "DevicesOption",
    "EngineName",
    "EngineOption",
    "LanguageOption",
    "Settings",
    "TasksOption",
    "ThinkingOption",
    "TrustOption",
    "build_manifest",
    "text_hash",
]

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from importlib.metadata import version
from typing import Annotated, Any, Literal

from typer import Option

from h2htalk_datasets.fingerprint import fingerprint
from h2htalk_datasets.generation.engines.base import Prompt
from h2htalk_datasets.generation.requests import principles_of, prompts_hash
from h2htalk_datasets.languages import LANGUAGES
from h2htalk_datasets.own_data import OwnData, load_data
from h2htalk_datasets.prompts import SAP, describe_templates, template_arguments
from h2htalk_datasets.tasks import TASKS

EngineName = Literal["transformers", "vllm", "openai"]

# Options that other commands have too.
EngineOption = Annotated[
    EngineName | None, Option(help="What runs the model. Default: openai with --base-url, else transformers.")
]
LanguageOption = Annotated[
    str | None, Option(help="Languages: 'en', 'zh', or 'en,zh' for both. Default: en, or all of --data.")
]
TasksOption = Annotated[str, Option(help="Config names separated by commas, or 'all'.")]
ThinkingOption = Annotated[int, Option(min=0, help="Extra tokens for <think> blocks, which are cut from the answer.")]
DevicesOption = Annotated[int, Option(min=1, help="GPUs that one process uses for its copy of the model.")]
TrustOption = Annotated[bool, Option("--trust-remote-code", help="Run code from the model's repository.")]


@dataclass(frozen=True)
class Settings:
    """Options of a run. Each annotated field is an option of ``h2htalk generate`` and ``h2htalk run``.

    Two are set by ``h2htalk probe`` only: ``probe``, the name of a probe set whose records replace those of ``tasks``,
    and ``persona_text``, a text that follows the principles of ``sap``.
    """

    model: Annotated[str, Option(help="A Hub id, a folder, 'demo', or the model's name at --base-url.")]
    tasks: TasksOption = "all"
    limit: Annotated[int | None, Option(help="Records per task, evenly spaced over the task. Default: all.")] = None
    language: LanguageOption = None
    engine: EngineOption = None
    sap: Annotated[str, Option(help="'all', 'none', or principles of the persona separated by commas.")] = "all"
    batch_size: Annotated[
        int | None,
        Option(min=1, help="Prompts that are decoded at once; it changes no answer. Default: fit to memory."),
    ] = None
    temperature: Annotated[float, Option(min=0, help="Sampling temperature; 0 is greedy.")] = 0.0
    top_p: Annotated[float, Option(min=0, max=1, help="Nucleus of sampling.")] = 1.0
    seed: Annotated[int, Option(help="Seed of sampling.")] = 0
    thinking_tokens: ThinkingOption = 0
    fold_system: Annotated[
        bool,
        Option(
            "--fold-system", help="Put the system text into the first user turn, for templates without a system role."
        ),
    ] = False
    chat_template_kwargs: Annotated[
        str, Option(help="Variables of the chat template, as JSON: '{\"enable_thinking\": false}'.")
    ] = ""
    allow_empty: Annotated[
        bool, Option("--allow-empty", help="Go on when a third of the first answers are empty at the token limit.")
    ] = False
    revision: Annotated[str | None, Option(help="Branch, tag or commit of a Hub model.")] = None
    adapter: Annotated[str | None, Option(help="Folder or Hub id of a LoRA adapter.")] = None
    dtype: Annotated[str, Option(help="auto, float32, bfloat16 or float16. auto on a CPU is float32.")] = "auto"
    attention: Annotated[str | None, Option(help="Attention implementation: sdpa, eager or flash_attention_2.")] = None
    devices_per_replica: DevicesOption = 1
    trust_remote_code: TrustOption = False
    jobs: Annotated[
        int, Option(min=1, help="Independent jobs that divide this run; start each with this same command.")
    ] = 1
    deterministic: Annotated[
        bool, Option("--deterministic", help="vLLM only: kernels whose results do not depend on the batch.")
    ] = False
    base_url: Annotated[str | None, Option(help="Base URL of an OpenAI-compatible server.")] = None
    max_connections: Annotated[int, Option(min=1, help="Concurrent requests to the server.")] = 16
    timeout: Annotated[float, Option(min=1, help="Seconds per attempt of a request.")] = 120.0
    data: Annotated[
        str | None, Option(help="Your own records: a folder of relationship files, a built dataset, or a Hub id.")
    ] = None
    prompts: Annotated[
        str | None, Option(help="Folder of prompt templates of your own, which replace shipped ones of the same name.")
    ] = None
    probe: str | None = None
    persona_text: str = ""

    @cached_property
    def own_data(self) -> OwnData | None:
        """The records of ``data``; None if the run answers shipped records."""
        return load_data(self.data) if self.data else None


def build_manifest(
    settings: Settings,
    *,
    records: Sequence[Mapping[str, Any]],
    prompts: Sequence[Prompt],
    model: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the content of ``run.json``: everything that decides the answers of a run.

    Args:
        settings: options of the run.
        records: the run's records, in order.
        prompts: their prompts, in the same order.
        model: identity of the engine.

    """
    principles, arguments = principles_of(settings.sap), template_arguments(settings.chat_template_kwargs)
    return {
        "format": 1,
        "dataset": {
            "fingerprint": fingerprint(records),
            **({} if settings.probe else {"languages": _language_fingerprints(records)}),
            "tasks": [settings.probe] if settings.probe else [task for task in TASKS if task in _tasks_of(prompts)],
            "limit": settings.limit,
            "n": len(records),
            **({"data": {"name": data.name, "source": data.source}} if (data := settings.own_data) else {}),
        },
        "prompts": {
            "sap": list(SAP) if principles is True else sorted(principles or ()),
            "hash": prompts_hash(prompts),
            **_prompts_of_languages(records, prompts),
            **({"templates": describe_templates(settings.prompts)} if settings.prompts else {}),
            **({"persona_text": text_hash(settings.persona_text)} if settings.persona_text else {}),
        },
        "model": dict(model),
        "generation": {
            "temperature": settings.temperature,
            "top_p": settings.top_p,
            "seed": settings.seed,
            "thinking_tokens": settings.thinking_tokens,
            **({"chat_template_kwargs": arguments} if arguments else {}),
            "max_new_tokens": _max_new_tokens(records, prompts),
        },
        "software": {name: version(name) for name in ("h2htalk", "torch", "transformers")},
    }


def text_hash(text: str) -> str:
    """Return the SHA-256 (hex) of a persona text, as a manifest records it."""
    return sha256(text.encode()).hexdigest()


def _language_fingerprints(records: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Fingerprint of the records of each language; scores of different languages are never averaged."""
    by_language: dict[str, list[Mapping[str, Any]]] = {}
    for record in records:
        by_language.setdefault(record["language"], []).append(record)
    return {language: fingerprint(own) for language, own in by_language.items()}


def _prompts_of_languages(records: Sequence[Mapping[str, Any]], prompts: Sequence[Prompt]) -> dict[str, dict[str, str]]:
    """Hash of the prompts of each language; empty if there is one language, whose hash is that of all."""
    by_language: dict[str, list[Prompt]] = {}
    for record, prompt in zip(records, prompts, strict=True):
        by_language.setdefault(record["language"], []).append(prompt)
    if len(by_language) == 1:
        return {}
    return {"languages": {language: prompts_hash(own) for language, own in by_language.items()}}


def _max_new_tokens(records: Sequence[Mapping[str, Any]], prompts: Sequence[Prompt]) -> dict[str, int]:
    """Most new tokens by config; those of Chinese tasks under the names of their configs."""
    suffixes = [LANGUAGES[record["language"]].config_suffix for record in records]
    pairs = zip(prompts, suffixes, strict=True)
    return {prompt.task + suffix: prompt.max_new_tokens for prompt, suffix in pairs}


def _tasks_of(prompts: Sequence[Prompt]) -> set[str]:
    return {prompt.task for prompt in prompts}
