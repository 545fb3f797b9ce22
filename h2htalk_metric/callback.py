"""H2HTalk inside a training loop: a `TrainerCallback` that generates and scores at every evaluation.

    trainer.add_callback(H2HTalkCallback(trainer, tasks="DialogueBase,ItineraryMiddle", limit=16))

The figures are logged as ``eval_h2htalk_*`` and join the evaluation's metrics, so ``metric_for_best_model`` can name
them; an ``EarlyStoppingCallback`` has to be added after this one, since callbacks run in their order. Under several
processes the ranks share the records, and each has the same figures.
"""

__all__ = ["H2HTalkCallback"]

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from transformers import Trainer, TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from transformers.integrations import is_deepspeed_zero3_enabled

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.generation.distributed.queue import Group
from h2htalk_datasets.generation.engines.base import Prompt
from h2htalk_datasets.generation.engines.models import Loaded
from h2htalk_datasets.generation.engines.transformers import TransformersEngine
from h2htalk_datasets.generation.in_memory import answer_all
from h2htalk_datasets.generation.run import chosen_rows, prompt_of
from h2htalk_metric.metrics.composite import score
from h2htalk_metric.metrics.lexical import LEXICAL, lexical
from h2htalk_metric.metrics.similarity import DEFAULT_EMBEDDER


class H2HTalkCallback(TrainerCallback):
    """Generates on chosen records at each evaluation and logs composite and components.

    Args:
        trainer: whose log gets the figures.
        tasks: configs joined by commas, or ``all``.
        limit: records per task, drawn evenly over the config.
        embedder: for SS, as in :func:`h2htalk_metric.score`; None for a light mode without embeddings, which logs the
            six lexical components and their mean under the name ``lexical``, and never S.
        batch_size: prompts a batch.
        fold_system: for chat templates without a system role.

    Raises:
        H2HTalkError: a task is unknown; the model is sharded (FSDP, ZeRO-3), since ranks that answer different records
            can't meet for each forward pass; or, at the first evaluation, the Trainer has no tokenizer, or one without
            a chat template.

    """

    def __init__(
        self,
        trainer: Trainer,
        *,
        tasks: str = "all",
        limit: int = 8,
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
        self._rows = chosen_rows(tasks, limit)
        self._prompts: list[Prompt] = [prompt_of(row, sap=True) for row in self._rows]

    def on_evaluate(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Generate, score, log; called by the Trainer."""
        if kwargs.get("processing_class") is None:
            raise H2HTalkError("the Trainer has no tokenizer; give it as Trainer(processing_class=tokenizer)")
        group = Group()
        with _random_state_kept(kwargs["model"].device.type):
            with _as_for_generation(kwargs["model"]) as model:
                loaded = Loaded(model, kwargs["processing_class"], name="in training", revision=str(state.global_step))
                engine = TransformersEngine(loaded, fold_system=self._fold)
                answers = answer_all(
                    engine,
                    self._prompts,
                    batch_size=self._batch_size,
                    seed=args.seed,
                    group=group,
                    key=group.key("evaluation"),
                )
            figures = self._figures([answer.text for answer in answers])
        kwargs.get("metrics", {}).update(figures)
        self._trainer.log(dict(figures))

    def _figures(self, texts: list[str]) -> dict[str, float]:
        references = [row["reference"] for row in self._rows]
        languages = [row["language"] for row in self._rows]
        if self._embedder is not None:
            means = score(texts, references, language=languages, embedder=self._embedder).mean()
        else:
            values = np.array([lexical(*pair) for pair in zip(texts, references, languages, strict=True)])
            means = dict(zip(LEXICAL, map(float, values.mean(axis=0)), strict=True))
            means["lexical"] = float(values.mean())
        return {f"eval_h2htalk_{name}": value for name, value in means.items()}


@contextmanager
def _random_state_kept(device: str) -> Iterator[None]:
    """Give torch's random state back as it was: loading an embedder draws from it, and dropout must not notice."""
    count = 0 if device == "cpu" else torch.get_device_module(device).device_count()
    with torch.random.fork_rng(devices=range(count), device_type=device):
        yield


@contextmanager
def _as_for_generation(model: Any) -> Iterator[Any]:
    """The model in eval mode with a cache, given back as it was: training goes on with its own settings."""
    inner = model.get_base_model() if hasattr(model, "get_base_model") else model  # peft hands settings down to it
    text = model.config.get_text_config()  # of a model that also sees, the part that has a cache
    training, config, use_cache = model.training, inner.generation_config, getattr(text, "use_cache", None)
    model.eval()
    text.use_cache = True
    try:
        yield model
    finally:
        model.generation_config = inner.generation_config = config
        text.use_cache = use_cache
        model.train(training)
