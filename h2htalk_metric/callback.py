"""H2HTalk inside a training loop: a `TrainerCallback` that generates and scores at every evaluation.

    trainer.add_callback(H2HTalkCallback(trainer, tasks="DialogueBase,ItineraryMiddle", limit=16))

The results are logged as ``eval_h2htalk_*`` and added to the evaluation's metrics, so ``metric_for_best_model`` can
name them. Add an ``EarlyStoppingCallback`` after this one, since callbacks run in their order. With several processes
the ranks share the records, rank 0 scores, and every rank has the same results.
"""

__all__ = ["H2HTalkCallback", "ready_for_generation"]

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from accelerate import PartialState
from transformers import Trainer, TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from transformers.integrations import is_deepspeed_zero3_enabled

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.generation.distributed.state import DistributedState
from h2htalk_datasets.generation.engines.base import Prompt
from h2htalk_datasets.generation.engines.models import Loaded
from h2htalk_datasets.generation.engines.transformers import TransformersEngine
from h2htalk_datasets.generation.in_memory import answer_all
from h2htalk_datasets.generation.requests import chosen_rows, prompt_of
from h2htalk_metric.distributed import on_main_process
from h2htalk_metric.metrics.composite import score
from h2htalk_metric.metrics.lexical import LEXICAL, lexical
from h2htalk_metric.metrics.similarity import DEFAULT_EMBEDDER, load_embedder, release_embedders


class H2HTalkCallback(TrainerCallback):
    """Generates on chosen records at each evaluation and logs the composite and its components.

    Args:
        trainer: its log receives the results.
        tasks: configs joined by commas, or ``all``.
        limit: records per task, drawn evenly over the config.
        records: what is answered in place of `tasks` and `limit`, for instance one part of
            :func:`h2htalk_datasets.splits.split_by_relationship`.
        embedder: for SS, as in :func:`h2htalk_metric.score`. Rank 0 loads it once here, so that a wrong name fails
            before the training, then at each evaluation; on a GPU its memory is freed afterwards. None: a light mode
            without embeddings, which logs the six lexical components and their mean as ``lexical``, and never S.
        batch_size: prompts that are decoded at once.
        fold_system: for chat templates without a system role.

    Raises:
        H2HTalkError: a task is unknown; the embedder cannot be loaded; the model is sharded (FSDP, ZeRO-3), whose
            forward pass needs all ranks at the same time while ranks answer different records; or, at the first
            evaluation, the Trainer has no tokenizer, or one without a chat template.

    """

    def __init__(
        self,
        trainer: Trainer,
        *,
        tasks: str = "all",
        limit: int = 8,
        records: Sequence[Mapping[str, Any]] | None = None,
        embedder: str | None = DEFAULT_EMBEDDER,
        batch_size: int = 8,
        fold_system: bool = False,
    ) -> None:
        if getattr(trainer, "is_fsdp_enabled", False) or is_deepspeed_zero3_enabled():
            raise H2HTalkError(
                "the callback needs the whole model on each rank, and FSDP and ZeRO-3 shard it; "
                "score saved checkpoints with `h2htalk run`, or train with DDP or ZeRO-2"
            )
        self._trainer, self._embedder = trainer, embedder
        self._batch_size, self._fold = batch_size, fold_system
        self._rows = chosen_rows(tasks, limit) if records is None else list(records)
        self._prompts: list[Prompt] = [prompt_of(row, sap=True) for row in self._rows]
        if embedder is not None and PartialState().is_main_process:
            load_embedder(embedder)
            _release_on_gpu()

    def on_evaluate(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Generate, score, log; called by the Trainer."""
        if kwargs.get("processing_class") is None:
            raise H2HTalkError("the Trainer has no tokenizer; give it as Trainer(processing_class=tokenizer)")
        group = DistributedState()
        with _preserve_random_state(kwargs["model"].device.type):
            with ready_for_generation(kwargs["model"]) as model:
                loaded = Loaded(model, kwargs["processing_class"], name="in training", revision=str(state.global_step))
                engine = TransformersEngine(
                    loaded, fold_system=self._fold, rows=self._batch_size, ranks=group.world_size
                )
                answers = answer_all(
                    engine,
                    self._prompts,
                    seed=args.seed,
                    state=group,
                    key=group.unique_key("evaluation"),
                )
            texts = [answer.text for answer in answers]
            results = on_main_process(lambda: self._score(texts), "score the evaluation")
        kwargs.get("metrics", {}).update(results)
        self._trainer.log(dict(results))

    def _score(self, texts: list[str]) -> dict[str, float]:
        references = [row["reference"] for row in self._rows]
        languages = [row["language"] for row in self._rows]
        if self._embedder is not None:
            means = score(texts, references, language=languages, embedder=self._embedder).mean()
            _release_on_gpu()
        else:
            values = np.array([lexical(*pair) for pair in zip(texts, references, languages, strict=True)])
            means = dict(zip(LEXICAL, map(float, values.mean(axis=0)), strict=True))
            means["lexical"] = float(values.mean())
        return {f"eval_h2htalk_{name}": value for name, value in means.items()}


def _release_on_gpu() -> None:
    """Free the embedder's GPU memory, which the training needs; on a CPU the loaded embedder stays."""
    if torch.cuda.is_available():
        release_embedders()


@contextmanager
def _preserve_random_state(device: str) -> Iterator[None]:
    """Restore torch's random state: loading an embedder uses it, and the training's dropout must not change."""
    count = 0 if device == "cpu" else torch.get_device_module(device).device_count()
    with torch.random.fork_rng(devices=range(count), device_type=device):
        yield


@contextmanager
def ready_for_generation(model: Any) -> Iterator[Any]:
    """Yield the model in eval mode with a cache; restore its training settings afterwards."""
    inner = model.get_base_model() if hasattr(model, "get_base_model") else model  # peft passes settings on to it
    text = model.config.get_text_config()  # the language part of a vision model has the cache
    training, config, use_cache = model.training, inner.generation_config, getattr(text, "use_cache", None)
    model.eval()
    text.use_cache = True
    try:
        yield model
    finally:
        model.generation_config = inner.generation_config = config
        text.use_cache = use_cache
        model.train(training)
