"""Apply a model's chat template without losing the persona, and with the same date every day."""

__all__ = ["PROMPT_DATE", "chat_text", "fold_system", "for_template", "prompt_date", "template_arguments"]

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Any

from h2htalk_datasets.errors import H2HTalkError

Messages = Sequence[dict[str, str]]

PROMPT_DATE = datetime(2025, 7, 4)
"""The date for chat templates that ask for today's date: the day of the paper, so prompts never change."""

_EXAMPLE = '{"enable_thinking": false}'
_RESERVED = {"messages", "conversation", "chat_template", "tokenize", "add_generation_prompt", "tools", "documents"}
_SYSTEM_MARK = "system-role-probe-7f3a"
_DATE_CODES = "aAbBcdHIjmMpSUwWxXyYzZ"  # the codes of strftime that every platform has


def template_arguments(text: str) -> dict[str, Any]:
    """Parse the value of ``--chat-template-kwargs``: a JSON object, or nothing.

    Raises:
        H2HTalkError: it is not a JSON object, or one of its names is an argument that h2htalk sets.

    """
    if not text.strip():
        return {}
    try:
        arguments = json.loads(text)
    except ValueError as error:
        raise H2HTalkError(f"--chat-template-kwargs is not JSON ({error}): {text}") from None
    if not isinstance(arguments, dict):
        raise H2HTalkError(f"--chat-template-kwargs must be a JSON object such as {_EXAMPLE}, got: {text}")
    if reserved := sorted(_RESERVED & arguments.keys()):
        raise H2HTalkError(f"--chat-template-kwargs cannot set {', '.join(reserved)}; h2htalk sets it")
    return arguments


def chat_text(messages: Messages, tokenizer: Any, arguments: Mapping[str, Any] = MappingProxyType({})) -> str:
    """Render a prompt with the tokenizer's chat template, up to the start of the answer.

    Args:
        messages: as the template accepts them, see :func:`for_template`.
        tokenizer: a Transformers tokenizer with a chat template.
        arguments: further variables of the template, such as ``enable_thinking``.

    """
    template = _STRFTIME_NOW + tokenizer.get_chat_template() if prompt_date(tokenizer) else None
    return tokenizer.apply_chat_template(
        messages, chat_template=template, tokenize=False, add_generation_prompt=True, **arguments
    )


def prompt_date(tokenizer: Any) -> str | None:
    """The date (YYYY-MM-DD) that the chat template gets; None if the template does not ask for one."""
    return f"{PROMPT_DATE:%Y-%m-%d}" if "strftime_now" in str(tokenizer.chat_template) else None


def for_template(messages: Messages, tokenizer: Any, fold: bool = False) -> list[dict[str, str]]:
    """Return messages that the tokenizer's chat template renders completely.

    Args:
        messages: as rendered, with a system message first.
        tokenizer: a Transformers tokenizer with a chat template.
        fold: put the system text into the first user turn if the template has no system role.

    Raises:
        H2HTalkError: there is no template, or it rejects or drops the system role and `fold` is False.

    """
    if _supports_system(tokenizer):
        return list(messages)
    if fold:
        return fold_system(messages)
    raise H2HTalkError(
        "the model's chat template has no system role, so the persona would be lost; "
        "pass --fold-system to put the system text into the first user turn"
    )


def fold_system(messages: Messages) -> list[dict[str, str]]:
    """Put the system text in front of the first user turn, separated by an empty line."""
    system = [m["content"] for m in messages if m["role"] == "system"]
    rest = [dict(m) for m in messages if m["role"] != "system"]
    if system and rest:
        rest[0]["content"] = "\n\n".join([*system, rest[0]["content"]])
    return rest


def _supports_system(tokenizer: Any) -> bool:
    """Whether the chat template renders the text of a system message."""
    if not getattr(tokenizer, "chat_template", None):
        raise H2HTalkError(
            "the model's tokenizer has no chat template; h2htalk measures chat models, so name an instruction-tuned one"
        )
    messages = [{"role": "system", "content": _SYSTEM_MARK}, {"role": "user", "content": "hello"}]
    try:
        return _SYSTEM_MARK in tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    except Exception:
        # Templates reject the role with jinja2's TemplateError or with any error of their raise_exception.
        return False


def _strftime_now() -> str:
    """A Jinja macro in place of Transformers' function of the same name, which callers cannot replace.

    Jinja drops the line break after the block, so the template's own text starts as usual.
    """
    texts = {code: PROMPT_DATE.strftime(f"%{code}") for code in _DATE_CODES}
    texts |= {f"-{code}": texts[code].lstrip("0") for code in "dm"}
    replaced = "".join(f"|replace('%{code}', '{text}')" for code, text in texts.items())
    return f"{{% macro strftime_now(format) %}}{{{{ format{replaced} }}}}{{% endmacro %}}\n"


_STRFTIME_NOW = _strftime_now()
