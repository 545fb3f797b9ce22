"""Render a record through its task's template."""

__all__ = ["SAP", "Principle", "principles", "render", "render_probe", "render_user"]

import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import yaml
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from h2htalk_datasets.errors import H2HTalkError, did_you_mean
from h2htalk_datasets.schema import Record
from h2htalk_datasets.tasks import MEMORY_CATEGORIES

_FOLDER = Path(__file__).parent


class Principle(NamedTuple):
    """One of the seven sections of the Secure Attachment Persona."""

    name: str
    heading: str
    source: str
    text: str


@cache
def principles(language: str = "en") -> tuple[Principle, ...]:
    """The seven principles of the Secure Attachment Persona in their order (paper, section on SAP)."""
    return tuple(Principle(**entry) for entry in _sap_file(language)["principles"])


def render(record: Record | Mapping[str, Any], sap: bool | Iterable[str] = True) -> list[dict[str, str]]:
    """Render a record into chat messages, ready for ``apply_chat_template``.

    Args:
        record: a :class:`Record` or a row of a loaded config.
        sap: True for the whole Secure Attachment Persona, False for none of it, or the names of the
            principles to keep (see :data:`SAP`), for an ablation.

    Returns:
        Two messages ``{"role", "content"}``: system (SAP, persona, task) and user (the record's own).

    Raises:
        H2HTalkError: a principle's name is unknown, or there are no prompts in the record's language.

    """
    if not isinstance(record, Record):
        record = Record.model_validate(record)
    return _compose(record, record.task, sap)


def render_probe(probe: Any, sap: bool | Iterable[str] = True) -> list[dict[str, str]]:
    """Render a probe (see :mod:`h2htalk_datasets.probes`), or a row of a probe set, as :func:`render` does."""
    return _compose(SimpleNamespace(**probe) if isinstance(probe, Mapping) else probe, "Probe", sap)


def render_user(brief: Mapping[str, Any], turn: int) -> list[dict[str, str]]:
    """Render what a model is told that plays the user.

    Args:
        brief: language, companion, persona, user, first, change, then, turn, and the `history` so far.
        turn: the number of the message that it is to write.

    """
    template = _environment(brief["language"]).get_template("SimulatedUser.jinja")
    context = template.new_context({"brief": brief, "turn": turn})
    system, user = (_tidy("".join(template.blocks[name](context))) for name in ("instructions", "material"))
    return [{"role": "system", "content": system}, {"role": "user", "content": user}]


def _compose(record: Any, template_name: str, sap: bool | Iterable[str]) -> list[dict[str, str]]:
    template = _environment(record.language).get_template(f"{template_name}.jinja")
    context = template.new_context({"record": record, "categories": MEMORY_CATEGORIES})
    blocks = {name: _tidy("".join(block(context))) for name, block in template.blocks.items()}
    persona = f"You are {record.companion}. Who you are:\n{_reflow(record.persona)}"
    system = [_sap_text(record.language, sap), persona, blocks["instructions"]]
    return [
        {"role": "system", "content": "\n\n".join(part for part in system if part)},
        {"role": "user", "content": blocks["material"]},
    ]


def _sap_text(language: str, sap: bool | Iterable[str]) -> str:
    kept = set(SAP) if sap is True else set() if sap is False else set(sap)
    for name in kept:
        if name not in SAP:
            raise H2HTalkError(f"unknown SAP principle {name!r}.{did_you_mean(name, SAP)} They are: {', '.join(SAP)}")
    sections = [f"{p.heading}. {p.text}" for p in principles(language) if p.name in kept]
    return "\n".join([_sap_file(language)["opening"], *sections]) if sections else ""


def _reflow(text: str) -> str:
    """Join the lines of each paragraph: sources are wrapped for people, a model needs no line ends."""
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in re.split(r"\n\s*\n", text.strip()))


def _tidy(text: str) -> str:
    return re.sub(r"\n{3,}", "\n\n", text).strip()


@cache
def _sap_file(language: str) -> dict[str, Any]:
    file = _FOLDER / language / "sap.yaml"
    if not file.exists():
        raise H2HTalkError(f"no prompts in language {language!r}; there are: {', '.join(_languages())}")
    return yaml.safe_load(file.read_text("utf-8"))


@cache
def _environment(language: str) -> Environment:
    if language not in _languages():
        raise H2HTalkError(f"no prompts in language {language!r}; there are: {', '.join(_languages())}")
    return Environment(
        loader=FileSystemLoader(_FOLDER / language),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=False,
    )


def _languages() -> list[str]:
    return sorted(folder.name for folder in _FOLDER.iterdir() if (folder / "sap.yaml").exists())


SAP: tuple[str, ...] = tuple(principle.name for principle in principles())
"""The names of the seven principles; any set of them may be given to :func:`render`."""
