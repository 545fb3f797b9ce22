"""Answers of models that think aloud: the thoughts are cut from the answer and kept beside it."""

__all__ = ["cut_reasoning", "opened_by"]

import re

_START, _END = r"(?:<think(?:ing)?>|\[THINK\])", r"(?:</think(?:ing)?>|\[/THINK\])"
_BLOCK = re.compile(f"{_START}(.*?){_END}", re.DOTALL)
# OpenAI's harmony format: messages in channels, of which only the final one is for the user.
_CHANNEL = r"<\|channel\|>(\w+)(?:(?!<\|message\|>).)*<\|message\|>"
_MESSAGE = re.compile(rf"{_CHANNEL}(.*?)(?=<\|end\|>|<\|start\|>|<\|channel\|>|<\|return\|>|<\|call\|>|\Z)", re.DOTALL)
_OPENED = re.compile(rf"(?:{_START}|{_CHANNEL})\s*\Z", re.DOTALL)


def opened_by(prompt: str) -> str:
    """The tag that a prompt ends with, since chat templates may open the thoughts themselves; or ''."""
    opened = _OPENED.search(prompt)
    return opened.group() if opened else ""


def cut_reasoning(text: str) -> tuple[str, str | None]:
    """Split a text into the answer and its thoughts (None where there are none).

    Where the room ended within the thoughts there is no answer, only thoughts. Tags may be special tokens, so the text
    is cut before these are stripped; and a prompt that ends in a tag has it put before the answer (:func:`opened_by`).
    A server may leave that tag out, so thoughts that only end are known too.
    """
    if messages := _MESSAGE.findall(text):
        return _parts(
            [said for channel, said in messages if channel == "final"],
            [said for channel, said in messages if channel != "final"],
        )
    thoughts = _BLOCK.findall(text)
    rest = _BLOCK.sub("", text)
    if end := re.search(_END, rest):
        thoughts.insert(0, rest[: end.start()])
        rest = rest[end.end() :]
    if start := re.search(_START, rest):
        thoughts.append(rest[start.end() :])
        rest = rest[: start.start()]
    return _parts([rest], thoughts)


def _parts(answers: list[str], thoughts: list[str]) -> tuple[str, str | None]:
    kept = [thought.strip() for thought in thoughts if thought.strip()]
    return "".join(answers).strip(), "\n\n".join(kept) or None
