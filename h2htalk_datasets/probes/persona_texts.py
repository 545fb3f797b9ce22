"""Persona texts that the Secure Attachment Persona is compared with, and the check of a text of the user's own."""

__all__ = ["MAX_PERSONA_CHARACTERS", "load_persona_text", "read_persona_text"]

from functools import cache
from pathlib import Path

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.files import parse_yaml

MAX_PERSONA_CHARACTERS = 100_000
"""About 25,000 tokens in English: with the conversation that fits into a context of 32,768 tokens."""


@cache
def load_persona_text(name: str, language: str = "en") -> str:
    """One of the texts that ship with the package: ``neutral``, ``short-rules`` or ``engagement``."""
    texts = parse_yaml((Path(__file__).parent / language / "persona_texts.yaml").read_text("utf-8"))
    return str(texts[name]).strip()


def read_persona_text(file: Path) -> str:
    """Read a persona text of the user's own.

    Args:
        file: UTF-8 text of 1 to :data:`MAX_PERSONA_CHARACTERS` characters.

    Raises:
        H2HTalkError: the file cannot be read, is not UTF-8, is empty, or is too long.

    """
    try:
        with file.open(encoding="utf-8-sig") as handle:
            text = handle.read(MAX_PERSONA_CHARACTERS + 1)
    except OSError as error:
        raise H2HTalkError(f"--persona-text: cannot read {file}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise H2HTalkError(f"--persona-text: {file} is not UTF-8 text; convert it first") from None
    if len(text) > MAX_PERSONA_CHARACTERS:
        raise H2HTalkError(
            f"--persona-text: {file} has more than {MAX_PERSONA_CHARACTERS:,} characters; shorten it, because models "
            "with a context of 32,768 tokens could not read it whole"
        )
    if not text.strip():
        raise H2HTalkError(f"--persona-text: {file} is empty; write the persona into it")
    return text.strip()
