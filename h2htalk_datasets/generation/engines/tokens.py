"""From prompts to tokens and from tokens to answers, for the engines that run a model in this process."""

__all__ = ["PromptTokens", "stop_ids"]

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.generation.engines.base import Answer, Prompt
from h2htalk_datasets.generation.engines.reasoning import cut_reasoning, opened_by
from h2htalk_datasets.prompts import chat_text, for_template, prompt_date


class PromptTokens:
    """The prompts of a run as token ids, and answers from token ids.

    Args:
        tokenizer: of the model.
        stops: tokens that end an answer.
        name: of the model, for error messages.
        context: most tokens of a prompt and its answer; None if there is no limit.
        fold_system: put the system text into the first user turn if the template has no system role.
        template_arguments: further variables of the chat template.

    """

    def __init__(
        self,
        tokenizer: Any,
        stops: Sequence[int],
        name: str,
        context: int | None,
        *,
        fold_system: bool = False,
        template_arguments: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        self._tokenizer, self._stops, self._name, self._context = tokenizer, stops, name, context
        self._fold, self._template_arguments = fold_system, template_arguments
        self._special = _special_tokens(tokenizer)
        self._ids: dict[str, list[int]] = {}
        self._opened: dict[str, str] = {}

    def __getitem__(self, prompt: Prompt) -> list[int]:
        """Return the token ids of a prompt that was added."""
        return self._ids[prompt.id]

    def add(self, prompts: Sequence[Prompt]) -> list[list[int]]:
        """Tokenize prompts; return their token ids.

        Raises:
            H2HTalkError: the tokenizer has no chat template, or one without a system role (and no ``fold_system``); or
                a prompt and its answer are longer than the model's context.

        """
        for prompt in prompts:
            messages = for_template(prompt.messages, self._tokenizer, self._fold)
            text = chat_text(messages, self._tokenizer, self._template_arguments)
            self._ids[prompt.id] = self._tokenizer(text, add_special_tokens=False)["input_ids"]
            self._opened[prompt.id] = opened_by(text)
        longest = max(prompts, key=lambda prompt: len(self[prompt]) + prompt.max_new_tokens)
        length = len(self[longest])
        if self._context and length + longest.max_new_tokens > self._context:
            raise H2HTalkError(
                f"the prompt of {longest.id} has {length} tokens and its answer up to {longest.max_new_tokens}, but "
                f"the context of {self._name} has {self._context}; use a model with a longer context"
            )
        return [self[prompt] for prompt in prompts]

    def answer(self, prompt: Prompt, new: Sequence[int]) -> Answer:
        """Return the answer of a prompt.

        Args:
            prompt: one that was added.
            new: its new tokens; those from the first stop token on are ignored.

        """
        end = next((place for place, token in enumerate(new) if token in self._stops), None)
        tokens = list(new[:end])
        parts = cut_reasoning(self._opened[prompt.id] + self._tokenizer.decode(tokens, skip_special_tokens=False))
        text, reasoning = (self._special.sub("", part or "").strip() for part in parts)
        reason = "length" if end is None else "stop"
        return Answer(text, reason, len(self[prompt]), len(tokens), reasoning or None)

    def identity(self) -> dict[str, Any]:
        """Return what of this changes answers: a folded system text, and the date that the template gets."""
        date = prompt_date(self._tokenizer)
        return {"fold_system": self._fold, **({"date": date} if date else {})}


def stop_ids(generation_config: Any, tokenizer: Any) -> list[int]:
    """Return the end-of-turn tokens: those of the checkpoint, and the tokenizer's end of sequence."""
    stops = generation_config.eos_token_id
    ids = [stops] if isinstance(stops, int) else list(stops or [])
    if tokenizer.eos_token_id is not None and tokenizer.eos_token_id not in ids:
        ids.append(tokenizer.eos_token_id)
    return ids


def _special_tokens(tokenizer: Any) -> re.Pattern[str]:
    """Return a pattern of everything that a decoder with ``skip_special_tokens`` leaves out."""
    added = {str(token) for token in tokenizer.added_tokens_decoder.values() if token.special}
    tokens = sorted(added | set(tokenizer.all_special_tokens), key=len, reverse=True)
    return re.compile("|".join(map(re.escape, tokens)) or "(?!)")
