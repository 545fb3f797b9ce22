"""The two probe sets: their schema, their columns, reading their sources, and loading them as built."""

__all__ = ["KINDS", "PROBES", "Probe", "load_probe", "probe_features", "probe_rows", "read_probes"]

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from h2htalk_datasets.errors import H2HTalkError, did_you_mean
from h2htalk_datasets.loading import read_config
from h2htalk_datasets.prompts import render_probe
from h2htalk_datasets.schema import Turn, problems_of

if TYPE_CHECKING:
    from datasets import Dataset, Features

_FOLDER = Path(__file__).parent
_WORDS = 80

PROBES = ("SafetyHighRisk", "InstructionFollowing")
"""The names under which the sets are loaded."""

KINDS = tuple(
    "suicidal_said suicidal_unsaid self_harm domestic_violence_victim domestic_violence_perpetrator eating_disorder "
    "substance_use psychosis abuse_disclosed medical_emergency stalking_control dependence romantic_pressure "
    "sexual_pressure minor_claim delusion_agreement human_question harm_to_others financial_scam goodbye_message "
    "lookalike".split()
)
"""What a SafetyHighRisk scenario is about; a lookalike only sounds dangerous, so that over-refusal shows."""

Text = Annotated[str, Field(min_length=1, pattern=r"\S")]
Sentences = Annotated[list[Text], Field(min_length=1, max_length=4)]
History = list[dict[Literal["user", "companion"], Text]]


class Strict(BaseModel):
    """A part of a source: no key too many, none changed later."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Companion(Strict):
    """Who speaks, and to whom."""

    name: Text
    profile: Text


class Interaction(Strict):
    """One prompt of a scenario, with what a safe answer must do and must not do."""

    history: History
    stage: Literal["opening", "rising", "crisis", "after"]
    must: Sentences
    must_not: Sentences
    reference: Text


class Scenario(Strict):
    """One high-risk situation, or one that only sounds like it, over several interactions."""

    slug: Text
    kind: Literal[KINDS]  # type: ignore[valid-type]
    danger: bool
    companion: Companion
    user: Text
    interactions: Annotated[list[Interaction], Field(min_length=1)]

    @model_validator(mode="after")
    def _lookalikes_are_harmless(self) -> "Scenario":
        if self.danger and self.kind == "lookalike":
            raise ValueError("danger: must be false for a lookalike")
        return self


class Twin(Strict):
    """The explicit control of an implicit record: the same need, said aloud."""

    history: History
    reference: Text


class Following(Strict):
    """One InstructionFollowing record: a need that is not said plainly, and how to see that it was met."""

    slug: Text
    family: Literal["implicit_help", "ambiguous_contradictory", "context_aware"]
    mood: Literal["depression", "anxiety", "anger", "plain"]
    companion: Companion
    user: Text
    history: History
    faintness: Literal[1, 2, 3]
    need: Text
    criteria: Annotated[list[Text], Field(min_length=2, max_length=4)]
    reference: Text
    twin: Twin | None = None

    @model_validator(mode="after")
    def _twins(self) -> "Following":
        if (self.family == "implicit_help") != (self.twin is not None):
            raise ValueError("twin: implicit_help records have one, the others have none")
        return self


class Probe(Strict):
    """One row of a probe set; keys that a set doesn't have are None or empty."""

    id: Text
    probe: Literal[PROBES]  # type: ignore[valid-type]
    scenario: Text
    kind: Text
    stage: str | None = None
    danger: bool | None = None
    mood: str | None = None
    faintness: int | None = None
    twin_of: str | None = None
    need: str | None = None
    must: list[str]
    must_not: list[str] = []
    companion: Text
    user: Text
    persona: Text
    language: str = "en"
    history: list[Turn]
    reference: Text

    @model_validator(mode="after")
    def _whole(self) -> "Probe":
        if not self.history or self.history[-1].role != "user":
            raise ValueError("history: its last turn must be the user's")
        if len(self.reference.split()) > _WORDS:
            raise ValueError(f"reference: has over {_WORDS} words")
        return self


def load_probe(name: str, language: str = "en") -> "Dataset":
    """Load a probe set of the installed package, straight from its Parquet file.

    Args:
        name: ``SafetyHighRisk`` or ``InstructionFollowing``.
        language: of the set.

    Returns:
        A ``datasets.Dataset``: the columns of :class:`Probe`, and `messages`.

    Raises:
        H2HTalkError: the name is unknown.

    """
    if name not in PROBES:
        raise H2HTalkError(f"unknown probe set {name!r}.{did_you_mean(name, PROBES)} There are: {', '.join(PROBES)}")
    return read_config(name, language, probe_features())


def probe_rows(probes: Iterable[Probe]) -> list[dict[str, Any]]:
    """The probes as rows with their prompts, in the columns of :func:`probe_features`."""
    return [probe.model_dump() | {"messages": render_probe(probe)} for probe in probes]


def probe_features() -> "Features":
    """The columns as ``datasets.Features``; the same for both sets."""
    from datasets import Features, List, Value

    text: Any = Value("string")
    turns = List({"role": text, "content": text})
    columns: dict[str, Any] = dict.fromkeys(Probe.model_fields, text)
    columns |= {"danger": Value("bool"), "faintness": Value("int8"), "must": List(text), "must_not": List(text)}
    return Features(columns | {"history": turns, "messages": turns})


def read_probes(name: str, language: str = "en") -> list[Probe]:
    """Read a set's YAML sources; every fault names file and entry."""
    read = _safety if name == "SafetyHighRisk" else _following
    pattern = "safety_high_risk.yaml" if name == "SafetyHighRisk" else "instruction_following_*.yaml"
    probes: list[Probe] = []
    for file in sorted((_FOLDER / language).glob(pattern)):
        for number, entry in enumerate(yaml.safe_load(file.read_text("utf-8")), 1):
            try:
                probes += read(entry, language)
            except ValidationError as error:
                where = f"{file.name}, entry {number}"
                raise H2HTalkError("\n".join(f"{where}: {line}" for line in problems_of(error))) from None
    return probes


def _safety(entry: dict[str, Any], language: str) -> list[Probe]:
    scenario = Scenario.model_validate(entry)
    return [
        Probe(
            id=f"{language}-safety-{scenario.slug}-{number}",
            probe="SafetyHighRisk",
            scenario=scenario.slug,
            kind=scenario.kind,
            danger=scenario.danger,
            stage=interaction.stage,
            must=interaction.must,
            must_not=interaction.must_not,
            history=_turns(interaction.history),
            reference=interaction.reference,
            **_people(scenario, language),
        )
        for number, interaction in enumerate(scenario.interactions, 1)
    ]


def _following(entry: dict[str, Any], language: str) -> list[Probe]:
    record = Following.model_validate(entry)
    common: dict[str, Any] = {
        "probe": "InstructionFollowing",
        "scenario": record.slug,
        "mood": record.mood,
        "need": record.need,
        "must": record.criteria,
        **_people(record, language),
    }
    own = f"{language}-following-{record.slug}"
    probes = [
        Probe(
            id=own,
            kind=record.family,
            faintness=record.faintness,
            history=_turns(record.history),
            reference=record.reference,
            **common,
        )
    ]
    if record.twin:
        probes.append(
            Probe(
                id=f"{own}-explicit",
                kind="explicit",
                twin_of=own,
                history=_turns(record.twin.history),
                reference=record.twin.reference,
                **common,
            )
        )
    return probes


def _people(source: Scenario | Following, language: str) -> dict[str, Any]:
    return {
        "companion": source.companion.name,
        "persona": source.companion.profile.strip(),
        "user": source.user,
        "language": language,
    }


def _turns(history: History) -> list[Turn]:
    return [Turn(role=role, content=text) for turn in history for role, text in turn.items()]
