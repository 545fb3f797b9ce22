"""Models without a system role: an error that says so, or the system text folded in, never a dropped persona."""

__all__ = ["fold_system", "for_template"]

from collections.abc import Sequence
from typing import Any

from h2htalk_datasets.errors import H2HTalkError

_MARK = "system-role-probe-7f3a"


def fold_system(messages: Sequence[dict[str, str]]) -> list[dict[str, str]]:
    """Put the system text in front of the first user turn, with an empty line between."""
    system = [m["content"] for m in messages if m["role"] == "system"]
    rest = [dict(m) for m in messages if m["role"] != "system"]
    if system and rest:
        rest[0]["content"] = "\n\n".join([*system, rest[0]["content"]])
    return rest


def for_template(messages: Sequence[dict[str, str]], tokenizer: Any, fold: bool = False) -> list[dict[str, str]]:
    """Return messages that the tokenizer's chat template will render whole.

    Args:
        messages: as rendered, a system message first.
        tokenizer: a Transformers tokenizer with a chat template.
        fold: put the system text into the first user turn if the template has no system role.

    Raises:
        H2HTalkError: the template is missing, or it refuses or drops the system role and `fold` is False.

    """
    if supports_system(tokenizer):
        return list(messages)
    if fold:
        return fold_system(messages)
    raise H2HTalkError(
        "the model's chat template has no system role, so the persona would be lost; "
        "pass --fold-system to put the system text into the first user turn"
    )


def supports_system(tokenizer: Any) -> bool:
    """Whether the chat template renders a system message's text."""
    if not getattr(tokenizer, "chat_template", None):
        raise H2HTalkError(
            "the model's tokenizer has no chat template; h2htalk measures chat models, so name an instruction-tuned one"
        )
    probe = [{"role": "system", "content": _MARK}, {"role": "user", "content": "hello"}]
    try:
        return _MARK in tokenizer.apply_chat_template(probe, tokenize=False, add_generation_prompt=True)
    except Exception:
        # Templates refuse with jinja2's TemplateError or with whatever their raise_exception gives.
        return False
