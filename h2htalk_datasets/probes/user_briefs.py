"""Briefs for a second model that plays the user: a need, and another one from the middle of the conversation on."""

__all__ = ["Brief", "load_briefs"]

from pathlib import Path
from typing import Annotated

import yaml
from pydantic import Field, ValidationError

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.probes.schema import Companion, Strict, Text
from h2htalk_datasets.schema import problems_of


class Brief(Strict):
    """One conversation to come.

    Attributes:
        slug: its name.
        companion: who answers; all that the companion's model is told is this profile.
        user: who is played.
        opening: the user's first message, as it stands.
        turn: the user's message with which the need changes, from 1.
        first: what is needed before.
        change: what happens then, and how it shows.
        then: what is needed from there on.

    """

    slug: Text
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
        H2HTalkError: one breaks the schema.

    """
    file = Path(__file__).parent / language / "changing_needs.yaml"
    briefs = []
    for number, entry in enumerate(yaml.safe_load(file.read_text("utf-8")), 1):
        try:
            briefs.append(Brief.model_validate(entry))
        except ValidationError as error:
            told = (f"{file.name}, entry {number}: {line}" for line in problems_of(error))
            raise H2HTalkError("\n".join(told)) from None
    return briefs
