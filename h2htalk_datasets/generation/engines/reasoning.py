"""Models that think before they answer: their thoughts are cut from the answer and stored next to it."""

__all__ = ["cut_reasoning", "opened_by"]

import re

_START, _END = r"(?:<think(?:ing)?>|\[THINK\])", r"(?:</think(?:ing)?>|\[/THINK\])"
_BLOCK = re.compile(f"{_START}(.*?){_END}", re.DOTALL)
# OpenAI's harmony format: messages in channels; only the final channel is for the user.
_CHANNEL = r"<\|channel\|>(\w+)(?:(?!<\|message\|>).)*<\|message\|>"
_MESSAGE = re.compile(rf"{_CHANNEL}(.*?)(?=<\|end\|>|<\|start\|>|<\|channel\|>|<\|return\|>|<\|call\|>|\Z)", re.DOTALL)
_OPENED = re.compile(rf"(?:{_START}|{_CHANNEL})\s*\Z", re.DOTALL)


def opened_by(prompt: str) -> str:
    """Return the thinking tag that a prompt ends with, because some chat templates open the thoughts; or ''."""
    opened = _OPENED.search(prompt)
    return opened.group() if opened else ""


def cut_reasoning(text: str) -> tuple[str, str | None]:
    """Split a generated text into the answer and its thoughts.

    Args:
        text: with its special tokens, because tags may be special tokens. If the prompt ended in a tag, put it in
            front (:func:`opened_by`); a closing tag without an opening one, as servers send it, works too.

    Returns:
        The answer, empty if generation ended within the thoughts, and the thoughts, or None if there are none.

    """
    if messages := _MESSAGE.findall(text):
        answers = [content for channel, content in messages if channel == "final"]
        return _joined(answers, [content for channel, content in messages if channel != "final"])
    thoughts = _BLOCK.findall(text)
    rest = _BLOCK.sub("", text)
    if end := re.search(_END, rest):
        thoughts.insert(0, rest[: end.start()])
        rest = rest[end.end() :]
    if start := re.search(_START, rest):
        thoughts.append(rest[start.end() :])
        rest = rest[: start.start()]
    return _joined([rest], thoughts)


def _joined(answers: list[str], thoughts: list[str]) -> tuple[str, str | None]:
    stripped = [thought.strip() for thought in thoughts if thought.strip()]
    return "".join(answers).strip(), "\n\n".join(stripped) or None
