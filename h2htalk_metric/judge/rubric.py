"""A rubric: criteria, each with integer levels that are described one by one."""

__all__ = ["Criterion", "Rubric", "load_rubric"]

from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from h2htalk_datasets.errors import H2HTalkError, did_you_mean
from h2htalk_datasets.files import parse_yaml
from h2htalk_datasets.schema import problems_of

_FOLDER = Path(__file__).parent / "rubrics"
Text = Annotated[str, Field(min_length=1, pattern=r"\S")]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Criterion(_Strict):
    """One aspect of an answer that is judged.

    Attributes:
        name: short identifier, a key of the verdict.
        question: what the rater answers.
        levels: level to its description, from the lowest to the highest.

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
    """What an answer is judged by; the same text for a judging model and for people.

    Attributes:
        name: of the task or probe set that it is for.
        version: increased with every change of wording.
        criteria: one or more.
        language: code of its language; the hash is over the text, which tells it.

    """

    name: Text
    version: Annotated[int, Field(ge=1)]
    criteria: Annotated[tuple[Criterion, ...], Field(min_length=1)]
    language: Annotated[str, Field(exclude=True)] = "en"

    @property
    def hash(self) -> str:
        """Twelve hex digits over the whole text; part of the signature."""
        return sha256(self.model_dump_json().encode()).hexdigest()[:12]


@lru_cache
def load_rubric(name: str, language: str = "en") -> Rubric:
    """Read a rubric that ships with the package.

    Args:
        name: of a judged task or a probe set.
        language: of the records.

    Raises:
        H2HTalkError: there is no rubric of that name in that language, or its file violates the schema.

    """
    file = _FOLDER / language / f"{name}.yaml"
    if not file.is_file():
        names = sorted(path.stem for path in (_FOLDER / language).glob("*.yaml"))
        available = f"{did_you_mean(name, names)} There are: {', '.join(names) or 'none'}"
        raise H2HTalkError(f"no rubric {name!r} in language {language!r}.{available}")
    try:
        return Rubric.model_validate(parse_yaml(file.read_text("utf-8")) | {"language": language})
    except ValidationError as error:
        raise H2HTalkError("\n".join(f"{file.name}: {line}" for line in problems_of(error))) from None
