"""The YAML sources of the two probe sets: their schema, and how they become rows."""

__all__ = ["KINDS", "LOOKALIKE", "Companion", "Instruction", "Scenario", "probe_rows", "read_entries", "read_probes"]

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import Field, ValidationError, model_validator

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.files import parse_yaml
from h2htalk_datasets.prompts import render_probe
from h2htalk_datasets.schema import Probe, Strict, Text, Turn, problems_of

_FOLDER = Path(__file__).parent
Entry = TypeVar("Entry")

KINDS = tuple(
    "suicidal_said suicidal_unsaid self_harm domestic_violence_victim domestic_violence_perpetrator eating_disorder "
    "substance_use psychosis abuse_disclosed medical_emergency stalking_control dependence romantic_pressure "
    "sexual_pressure minor_claim delusion_agreement human_question harm_to_others financial_scam goodbye_message "
    "benign_lookalike".split()
)
"""Topics of the SafetyHighRisk scenarios. A benign lookalike only sounds dangerous, to show over-refusal."""

LOOKALIKE = "benign_lookalike"
"""The kind of the six harmless scenarios; the 27 others are dangerous."""

Sentences = Annotated[list[Text], Field(min_length=1, max_length=4)]
History = list[dict[Literal["user", "companion"], Text]]


class Companion(Strict):
    """The companion: its name, and the profile that the model gets."""

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
    def _check_danger(self) -> "Scenario":
        if self.danger and self.kind == LOOKALIKE:
            raise ValueError("danger: must be false for a benign_lookalike")
        return self


class ExplicitControl(Strict):
    """The control of an implicit record: the user states the same need openly."""

    history: History
    reference: Text


class Instruction(Strict):
    """One InstructionFollowing record: a need that the user does not state openly, and criteria for meeting it."""

    slug: Text
    family: Literal["implicit_help", "ambiguous_contradictory", "context_aware"]
    emotion: Literal["depression", "anxiety", "anger", "plain"]
    companion: Companion
    user: Text
    history: History
    implicitness: Literal[1, 2, 3]
    need: Text
    criteria: Annotated[list[Text], Field(min_length=2, max_length=4)]
    reference: Text
    explicit_control: ExplicitControl | None = None

    @model_validator(mode="after")
    def _check_control(self) -> "Instruction":
        if (self.family == "implicit_help") != (self.explicit_control is not None):
            raise ValueError("explicit_control: required for implicit_help, not allowed for the other families")
        return self


def read_probes(name: str, language: str = "en") -> list[Probe]:
    """Read the YAML sources of a probe set.

    Args:
        name: ``SafetyHighRisk`` or ``InstructionFollowing``.
        language: language of the set.

    Raises:
        H2HTalkError: an entry violates the schema; each line names file and entry.

    """
    if name == "SafetyHighRisk":
        pattern, to_probes = "safety_high_risk.yaml", _scenario_probes
    else:
        pattern, to_probes = "instruction_following_*.yaml", _instruction_probes
    probes = []
    for file in sorted((_FOLDER / language).glob(pattern)):
        for of_entry in read_entries(file, partial(to_probes, language=language)):
            probes += of_entry
    return probes


def read_entries(file: Path, parse: Callable[[Any], Entry]) -> list[Entry]:
    """Parse each entry of a YAML list.

    Args:
        file: the YAML file.
        parse: a function of one entry that may raise pydantic's ``ValidationError``.

    Raises:
        H2HTalkError: an entry violates the schema; each line names file and entry.

    """
    parsed = []
    for number, entry in enumerate(parse_yaml(file.read_text("utf-8")), 1):
        try:
            parsed.append(parse(entry))
        except ValidationError as error:
            lines = (f"{file.name}, entry {number}: {problem}" for problem in problems_of(error))
            raise H2HTalkError("\n".join(lines)) from None
    return parsed


def probe_rows(probes: Iterable[Probe]) -> list[dict[str, Any]]:
    """The probes as dataset rows with their prompts, see :func:`h2htalk_datasets.schema.probe_features`."""
    return [probe.model_dump() | {"messages": render_probe(probe)} for probe in probes]


def _scenario_probes(entry: Any, language: str) -> list[Probe]:
    scenario = Scenario.model_validate(entry)
    return [
        Probe(
            id=f"{language}-safety-{scenario.slug}-{number}",
            probe="SafetyHighRisk",
            kind=scenario.kind,
            danger=scenario.danger,
            stage=interaction.stage,
            must=interaction.must,
            must_not=interaction.must_not,
            history=_turns(interaction.history),
            reference=interaction.reference,
            **_shared_columns(scenario, language),
        )
        for number, interaction in enumerate(scenario.interactions, 1)
    ]


def _instruction_probes(entry: Any, language: str) -> list[Probe]:
    source = Instruction.model_validate(entry)
    control = source.explicit_control
    own_id = f"{language}-following-{source.slug}"
    control_id = f"{own_id}-explicit"
    shared: dict[str, Any] = {
        "probe": "InstructionFollowing",
        "emotion": source.emotion,
        "need": source.need,
        "must": source.criteria,
        **_shared_columns(source, language),
    }
    probe = Probe(
        id=own_id,
        kind=source.family,
        implicitness=source.implicitness,
        explicit_control=control_id if control else None,
        history=_turns(source.history),
        reference=source.reference,
        **shared,
    )
    if control is None:
        return [probe]
    history = _turns(control.history)
    return [probe, Probe(id=control_id, kind="explicit", history=history, reference=control.reference, **shared)]


def _shared_columns(source: Scenario | Instruction, language: str) -> dict[str, Any]:
    return {
        "scenario": source.slug,
        "companion": source.companion.name,
        "persona": source.companion.profile.strip(),
        "user": source.user,
        "language": language,
    }


def _turns(history: History) -> list[Turn]:
    return [Turn(role=role, content=text) for turn in history for role, text in turn.items()]
