"""Answers of models that think aloud: the thoughts are cut from the answer and kept beside it."""

__all__ = ["cut_reasoning"]

import re

_BLOCK = re.compile(r"<think(?:ing)?>(.*?)</think(?:ing)?>", re.DOTALL)
_END = re.compile(r"</think(?:ing)?>")
_START = re.compile(r"<think(?:ing)?>")


def cut_reasoning(text: str) -> tuple[str, str | None]:
    """Split a text into the answer and its thoughts (None where there are none).

    Chat templates may open the block themselves, so that only its end is in the text; and where the room ended inside
    the block there is no answer, only thoughts.
    """
    thoughts = _BLOCK.findall(text)
    rest = _BLOCK.sub("", text)
    if end := _END.search(rest):
        thoughts.insert(0, rest[: end.start()])
        rest = rest[end.end() :]
    if start := _START.search(rest):
        thoughts.append(rest[start.end() :])
        rest = rest[: start.start()]
    kept = [thought.strip() for thought in thoughts if thought.strip()]
    return rest.strip(), "\n\n".join(kept) or None
