"""A rubric: criteria, each with whole-number levels that are described one by one."""

__all__ = ["Criterion", "Rubric", "load_rubric"]

from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Annotated

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from h2htalk_datasets.errors import H2HTalkError, did_you_mean
from h2htalk_datasets.schema import problems_of

_FOLDER = Path(__file__).parent / "rubrics"
Text = Annotated[str, Field(min_length=1, pattern=r"\S")]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Criterion(_Strict):
    """One thing that is marked.

    Attributes:
        name: a short identifier, a key of the verdict.
        question: what the rater asks.
        levels: what each mark means, from the lowest to the highest.

    """

    name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")]
    question: Text
    levels: Annotated[dict[int, Text], Field(min_length=2)]

    @model_validator(mode="after")
    def _ascending(self) -> "Criterion":
        if list(self.levels) != sorted(self.levels):
            raise ValueError("levels: must ascend")
        return self


class Rubric(_Strict):
    """What an answer is marked by; the same text for a judging model and for people.

    Attributes:
        name: of the task or probe set that it is for.
        version: raised with every change of wording.
        criteria: marked one by one.

    """

    name: Text
    version: Annotated[int, Field(ge=1)]
    criteria: Annotated[tuple[Criterion, ...], Field(min_length=1)]

    @property
    def hash(self) -> str:
        """Twelve hex digits of the whole text; stands in the signature."""
        return sha256(self.model_dump_json().encode()).hexdigest()[:12]


@lru_cache
def load_rubric(name: str, language: str = "en") -> Rubric:
    """Read a rubric that ships with the package.

    Raises:
        H2HTalkError: there is none of that name, or its file breaks the schema.

    """
    file = _FOLDER / language / f"{name}.yaml"
    if not file.is_file():
        names = sorted(path.stem for path in (_FOLDER / language).glob("*.yaml"))
        raise H2HTalkError(f"no rubric {name!r}.{did_you_mean(name, names)} There are: {', '.join(names)}")
    try:
        return Rubric.model_validate(yaml.safe_load(file.read_text("utf-8")))
    except ValidationError as error:
        raise H2HTalkError("\n".join(f"{file.name}: {line}" for line in problems_of(error))) from None
