"""Render a record with the template of its task."""

__all__ = ["SAP", "Principle", "principles", "render", "render_memory", "render_probe", "render_user"]

import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import yaml
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from h2htalk_datasets.errors import H2HTalkError, did_you_mean
from h2htalk_datasets.languages import LANGUAGES
from h2htalk_datasets.schema import Probe, Record
from h2htalk_datasets.tasks import PLANNING

_FOLDER = Path(__file__).parent


class Principle(NamedTuple):
    """One of the seven sections of the Secure Attachment Persona; models get `heading` and `text`."""

    name: str
    heading: str
    source: str
    text: str


def render(record: Record | Mapping[str, Any], sap: bool | Iterable[str] = True) -> list[dict[str, str]]:
    """Render a record into chat messages, ready for ``apply_chat_template``.

    Args:
        record: a :class:`Record` or a row of a loaded task.
        sap: True for the complete Secure Attachment Persona, False for none, or the names of the
            principles to include (see :data:`SAP`), for an ablation.

    Returns:
        Two messages ``{"role", "content"}``: system (SAP, persona, task) and user (the record's own part).

    Raises:
        H2HTalkError: a principle's name is unknown, or there are no prompts in the record's language.

    """
    if not isinstance(record, Record):
        record = Record.model_validate(record)
    return _messages(record, record.task, sap)


def render_probe(
    probe: Probe | Mapping[str, Any], sap: bool | Iterable[str] = True, persona_text: str = ""
) -> list[dict[str, str]]:
    """Render a :class:`Probe` or a row of a probe set; result and errors as for :func:`render`.

    Args:
        probe: the probe.
        sap: as for :func:`render`.
        persona_text: another text on how to be with people; it follows SAP.

    """
    record = SimpleNamespace(**probe) if isinstance(probe, Mapping) else probe
    return _messages(record, PLANNING if record.probe == PLANNING else "Probe", sap, persona_text)


def render_memory(question: Mapping[str, Any], sap: bool | Iterable[str] = True) -> list[dict[str, str]]:
    """Render a question of CompanionMemory; result and errors as for :func:`render`.

    Args:
        question: a row of CompanionMemory, with ``context`` (what a memory strategy gives the model) and ``today``.
        sap: as for :func:`render`.

    """
    return _messages(SimpleNamespace(**question), "CompanionMemory", sap)


def render_user(brief: Mapping[str, Any], turn: int) -> list[dict[str, str]]:
    """Render the prompt of a second model that plays the user.

    Args:
        brief: language, companion, persona, user, first, change, then, turn, and the `history` up to now.
        turn: number of the user's message to write, from 1.

    Returns:
        Two messages ``{"role", "content"}``: system and user.

    """
    system, user = _blocks(brief["language"], "SimulatedUser", brief=brief, turn=turn)
    return [{"role": "system", "content": system}, {"role": "user", "content": user}]


@cache
def principles(language: str = "en") -> tuple[Principle, ...]:
    """The seven principles of the Secure Attachment Persona in their order (paper, section on SAP)."""
    return tuple(Principle(**entry) for entry in _sap_file(language)["principles"])


def _messages(record: Any, template: str, sap: bool | Iterable[str], persona_text: str = "") -> list[dict[str, str]]:
    categories = LANGUAGES[record.language].categories
    instructions, material = _blocks(record.language, template, record=record, categories=categories)
    persona = _environment(record.language).get_template("persona.jinja")
    frame = persona.render(companion=record.companion, persona=_unwrap(record.persona))
    system = [_sap_text(record.language, sap), persona_text, frame, instructions]
    return [
        {"role": "system", "content": "\n\n".join(part for part in system if part)},
        {"role": "user", "content": material},
    ]


def _blocks(language: str, name: str, **variables: Any) -> tuple[str, str]:
    """Render the two blocks of a template, `instructions` and `material`."""
    template = _environment(language).get_template(f"{name}.jinja")
    context = template.new_context(variables)
    instructions, material = ("".join(template.blocks[block](context)) for block in ("instructions", "material"))
    return _tidy(instructions), _tidy(material)


def _sap_text(language: str, sap: bool | Iterable[str]) -> str:
    selected = set(SAP) if sap is True else set() if sap is False else set(sap)
    for name in selected:
        if name not in SAP:
            raise H2HTalkError(f"unknown SAP principle {name!r}.{did_you_mean(name, SAP)} They are: {', '.join(SAP)}")
    sections = [f"{p.heading}. {p.text}" for p in principles(language) if p.name in selected]
    return "\n".join([_sap_file(language)["opening"], *sections]) if sections else ""


def _unwrap(text: str) -> str:
    """Join the lines of each paragraph; the sources are wrapped."""
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in re.split(r"\n\s*\n", text.strip()))


def _tidy(text: str) -> str:
    return re.sub(r"\n{3,}", "\n\n", text).strip()


@cache
def _sap_file(language: str) -> dict[str, Any]:
    return yaml.safe_load((_language_folder(language) / "sap.yaml").read_text("utf-8"))


@cache
def _environment(language: str) -> Environment:
    return Environment(
        loader=FileSystemLoader(_language_folder(language)),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=False,
    )


def _language_folder(language: str) -> Path:
    languages = sorted(folder.name for folder in _FOLDER.iterdir() if (folder / "sap.yaml").exists())
    if language not in languages:
        raise H2HTalkError(f"no prompts in language {language!r}; there are: {', '.join(languages)}")
    return _FOLDER / language


SAP: tuple[str, ...] = tuple(principle.name for principle in principles())
"""The names of the seven principles; :func:`render` takes any subset of them."""
