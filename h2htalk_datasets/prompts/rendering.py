"""Render a record with the template of its task."""

__all__ = [
    "SAP",
    "Principle",
    "describe_templates",
    "principles",
    "render",
    "render_memory",
    "render_probe",
    "render_user",
]

import re
from collections.abc import Iterable, Mapping
from functools import cache
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import yaml
from jinja2 import Environment, FileSystemLoader, StrictUndefined, TemplateError, TemplateSyntaxError

from h2htalk_datasets.errors import H2HTalkError, did_you_mean, one_line
from h2htalk_datasets.files import parse_yaml
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


def render(
    record: Record | Mapping[str, Any], sap: bool | Iterable[str] = True, templates: str | Path | None = None
) -> list[dict[str, str]]:
    """Render a record into chat messages, ready for ``apply_chat_template``.

    Args:
        record: a :class:`Record` or a row of a loaded task.
        sap: True for the complete Secure Attachment Persona, False for none, or the names of the
            principles to include (see :data:`SAP`), for an ablation.
        templates: a folder of templates that replace shipped ones of the same name; in a subfolder named by the
            language's code if there is one.

    Returns:
        Two messages ``{"role", "content"}``: system (SAP, persona, task) and user (the record's own part).

    Raises:
        H2HTalkError: a principle's name is unknown, there are no prompts in the record's language, or a template of
            `templates` has another name than the shipped ones, an error, or an unknown variable.

    """
    if not isinstance(record, Record):
        record = Record.model_validate(record)
    folder = _own_folder(templates, record.language)
    try:
        return _messages(record, record.task, sap, folder=folder)
    except TemplateError as error:
        if folder is None:
            raise
        line = f", line {error.lineno}" if isinstance(error, TemplateSyntaxError) else ""
        raise H2HTalkError(f"the templates in {folder}{line}: {record.id}: {one_line(error)}") from None


def describe_templates(folder: str | Path) -> dict[str, str]:
    """Return what a run's manifest records about templates: absolute path, and SHA-256 (hex) of names and contents."""
    path = Path(folder).resolve()
    files = sorted(file for file in path.rglob("*") if file.suffix in (".jinja", ".yaml"))
    digest = sha256()
    for file in files:
        digest.update(f"{file.relative_to(path)}\0".encode() + file.read_bytes() + b"\0")
    return {"source": str(path), "hash": digest.hexdigest()}


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


def _messages(
    record: Any, template: str, sap: bool | Iterable[str], persona_text: str = "", folder: Path | None = None
) -> list[dict[str, str]]:
    categories = LANGUAGES[record.language].categories
    instructions, material = _blocks(record.language, template, folder, record=record, categories=categories)
    persona = _environment(record.language, folder).get_template("persona.jinja")
    frame = persona.render(companion=record.companion, persona=_unwrap(record.persona))
    system = [_sap_text(record.language, sap, folder), persona_text, frame, instructions]
    return [
        {"role": "system", "content": "\n\n".join(part for part in system if part)},
        {"role": "user", "content": material},
    ]


def _blocks(language: str, name: str, folder: Path | None = None, **variables: Any) -> tuple[str, str]:
    """Render the two blocks of a template, `instructions` and `material`."""
    template = _environment(language, folder).get_template(f"{name}.jinja")
    if missing := {"instructions", "material"} - template.blocks.keys():
        raise H2HTalkError(f"{template.filename}: the block {sorted(missing)[0]!r} is missing")
    context = template.new_context(variables)
    instructions, material = ("".join(template.blocks[block](context)) for block in ("instructions", "material"))
    return _tidy(instructions), _tidy(material)


def _sap_text(language: str, sap: bool | Iterable[str], folder: Path | None = None) -> str:
    selected = set(SAP) if sap is True else set() if sap is False else set(sap)
    for name in selected:
        if name not in SAP:
            raise H2HTalkError(f"unknown SAP principle {name!r}.{did_you_mean(name, SAP)} They are: {', '.join(SAP)}")
    content = _sap_file(language, folder)
    sections = [f"{entry['heading']}. {entry['text']}" for entry in content["principles"] if entry["name"] in selected]
    return "\n".join([content["opening"], *sections]) if sections else ""


def _unwrap(text: str) -> str:
    """Join the lines of each paragraph; the sources are wrapped."""
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in re.split(r"\n\s*\n", text.strip()))


def _tidy(text: str) -> str:
    return re.sub(r"\n{3,}", "\n\n", text).strip()


@cache
def _sap_file(language: str, folder: Path | None = None) -> dict[str, Any]:
    own = folder / "sap.yaml" if folder else None
    if own is None or not own.exists():
        return parse_yaml((_language_folder(language) / "sap.yaml").read_text("utf-8"))
    try:
        content = parse_yaml(own.read_text("utf-8"))
        texts = [content["opening"], *(entry[key] for entry in content["principles"] for key in ("heading", "text"))]
        names = [entry["name"] for entry in content["principles"]]
        if not all(isinstance(text, str) for text in texts) or set(names) != set(SAP):
            raise KeyError("principles")
    except (yaml.YAMLError, KeyError, TypeError):
        raise H2HTalkError(
            f"{own}: needs `opening` and `principles`, each with name, heading and text; their names: {', '.join(SAP)}"
        ) from None
    return content


@cache
def _own_folder(templates: str | Path | None, language: str) -> Path | None:
    """Return the folder with a user's own templates for a language."""
    if templates is None:
        return None
    folder = Path(templates)
    if not folder.is_dir():
        raise H2HTalkError(f"there is no folder of templates {folder}")
    folder = folder / language if (folder / language).is_dir() else folder
    shipped = {file.name for file in _language_folder(language).iterdir()}
    for file in sorted(folder.iterdir()):
        if file.suffix in (".jinja", ".yaml") and file.name not in shipped:
            raise H2HTalkError(f"{file}: no template has that name.{did_you_mean(file.name, shipped)}")
    return folder


@cache
def _environment(language: str, folder: Path | None = None) -> Environment:
    return Environment(
        loader=FileSystemLoader([*([folder] if folder else []), _language_folder(language)]),
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
