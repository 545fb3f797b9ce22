"""Briefs for a second model that plays the user, whose need changes in the middle of the conversation."""

__all__ = ["CHANGES", "Brief", "load_briefs"]

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from h2htalk_datasets.probes.schema import Companion, read_entries
from h2htalk_datasets.schema import Strict, Text

CHANGES = ("loss", "fear", "exhaustion", "loneliness", "reconciliation", "relief")
"""Kinds of change: what comes to light when the need changes. Each has as many briefs as any other."""


class Brief(Strict):
    """The brief of one conversation; the companion's model sees only the companion's profile.

    Attributes:
        slug: name of the brief.
        kind: one of :data:`CHANGES`.
        companion: the companion that answers.
        user: name of the user that the second model plays.
        opening: first message of the user, word for word.
        turn: number of the user's message in which the need changes, 2 to 6.
        first: the need before the change.
        change: what happens then, and how the user shows it.
        then: the need after the change.

    """

    slug: Text
    kind: Literal[CHANGES]  # type: ignore[valid-type]
    companion: Companion
    user: Text
    opening: Text
    turn: Annotated[int, Field(ge=2, le=6)]
    first: Text
    change: Text
    then: Text


def load_briefs(language: str = "en") -> list[Brief]:
    """Read the briefs that ship with the package.

    Raises:
        H2HTalkError: a brief violates the schema; each line names file and entry.

    """
    return read_entries(Path(__file__).parent / language / "changing_needs.yaml", Brief.model_validate)
