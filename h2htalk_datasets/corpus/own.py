"""A user's own corpus: a folder of relationship files, in any number, with its own name and fingerprint."""

__all__ = ["build_folder", "check_folder", "new_relationship", "read_folder", "rows_of_folder"]

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from h2htalk_datasets.answer_format import format_error
from h2htalk_datasets.corpus.build import record_row, summary, write_parquet
from h2htalk_datasets.corpus.check import Check
from h2htalk_datasets.corpus.checks import check_records, check_references
from h2htalk_datasets.corpus.chinese import check_chinese
from h2htalk_datasets.corpus.sources import read_sources
from h2htalk_datasets.corpus.speech import check_speech
from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.files import describe_write_errors
from h2htalk_datasets.fingerprint import fingerprint
from h2htalk_datasets.languages import LANGUAGES, language_of
from h2htalk_datasets.schema import Record, features
from h2htalk_datasets.tasks import TASKS

_SKELETONS = Path(__file__).parent / "skeletons"
_SLUG = re.compile(r"(?:\d{1,3}-)?[a-z0-9][a-z0-9-]*")
_HAN = re.compile(r"[\u4e00-\u9fff]")
_LEAST_HAN, _MOST_HAN = 0.3, 0.2  # of the letters of a Chinese text, of an English one
_CARD = """\
---
configs:
{configs}
---
# {name}

{n} records in the form of H2HTalk. Score a model on them: `h2htalk run --model MODEL --data FOLDER --out RUN`.
"""


def new_relationship(slug: str, language: str = "en", folder: Path = Path()) -> Path:
    """Write a commented skeleton of a relationship file.

    Args:
        slug: small letters, digits and hyphens; without a number in front it gets the next one of the folder.
        language: code of its language.
        folder: created if missing.

    Returns:
        The file.

    Raises:
        H2HTalkError: the slug is not valid, its number or file exists, or the folder cannot be written.

    """
    text = (_SKELETONS / f"{language_of(language).code}.yaml").read_text("utf-8")
    if not _SLUG.fullmatch(slug):
        raise H2HTalkError(f"{slug!r} is not a slug; use small letters, digits and hyphens, for example night-tram")
    numbers = {int(file.name.split("-")[0]): file for file in folder.glob("*-*.yaml") if file.name[0].isdigit()}
    if not slug[0].isdigit():
        slug = f"{max(numbers, default=0) + 1:02d}-{slug}"
    elif other := numbers.get(int(slug.split("-")[0])):
        raise H2HTalkError(f"{other} has that number already; leave it out to get the next one")
    file = folder / f"{slug}.yaml"
    with describe_write_errors(file):
        folder.mkdir(parents=True, exist_ok=True)
        file.write_text(text.replace("SLUG", slug, 1), "utf-8")
    return file


def read_folder(folder: Path) -> tuple[list[Record], list[str]]:
    """Read the relationship files of a folder. A file names its language; without, it is that of the folder's name.

    Returns:
        The records without messages, language by language and task by task, and all problems, one line each with file,
        record and rule.

    Raises:
        H2HTalkError: the folder has no relationship files.

    """
    files = sorted(file for file in folder.glob("*.yaml") if file.name != "cast.yaml")
    if not files:
        raise H2HTalkError(f"{folder} has no relationship files; start with: h2htalk new-relationship SLUG")
    default = folder.resolve().name
    records, problems = read_sources(files, default if default in LANGUAGES else "en")
    problems += _repeated_numbers(files)
    for record in records:
        where = f"{record.relationship}.yaml: {record.task} {int(record.id.rpartition('-')[2])}"
        problems += [f"{where}: {problem}" for problem in _problems_of_record(record)]
    order = {(code, task): place for place, (code, task) in enumerate((c, t) for c in LANGUAGES for t in TASKS)}
    return sorted(records, key=lambda record: order[record.language, record.task]), problems


def check_folder(folder: Path) -> tuple[list[Record], list[Check]]:
    """Check a folder of relationship files.

    Returns:
        The records, and the checks: one for what must hold, then those of the shipped corpus as advice, per language.

    """
    records, problems = read_folder(folder)
    checks = [Check.no_offenders("every file, record, reference and id is valid", problems)]
    for language in LANGUAGES:
        own = [record for record in records if record.language == language]
        if own:
            references = {task: [r.reference for r in own if r.task == task] for task in TASKS}
            references = {task: texts for task, texts in references.items() if texts}
            speech = check_speech if language == "en" else check_chinese
            advice = [
                *check_records(own, language),
                *speech(own, partial=True),
                *check_references(references, language),
            ]
            checks += [check.as_advice(language) for check in advice]
    return records, checks


def build_folder(folder: Path, out: Path) -> dict[str, int]:
    """Check a folder of relationship files, and write them as a dataset: Parquet, a manifest per language, and a card.

    Args:
        folder: of relationship files.
        out: the folder of the dataset; created if missing.

    Returns:
        Records per config.

    Raises:
        H2HTalkError: a record or a file is not valid (the first problem is named), or `out` cannot be written.

    """
    rows = rows_of_folder(folder)
    counts: dict[str, int] = {}
    configs = []
    with describe_write_errors(out):
        for language in LANGUAGES.values():
            own = [row for row in rows if row["language"] == language.code]
            tasks = {task: [row for row in own if row["task"] == task] for task in TASKS}
            tasks = {task: of_task for task, of_task in tasks.items() if of_task}
            if not tasks:
                continue
            target = out / language.code
            target.mkdir(parents=True, exist_ok=True)
            for task, of_task in tasks.items():
                write_parquet(of_task, features(), target / f"{task}.parquet")
                config = f"{task}{language.config_suffix}"
                counts[config] = len(of_task)
                path = f"{language.code}/{task}.parquet"
                configs.append(f"- config_name: {config}\n  data_files: [{{split: test, path: {path}}}]")
            manifest = {"name": folder.resolve().name, "language": language.code} | summary(tasks)
            manifest |= {"fingerprint": fingerprint(own)}
            (target / "manifest.json").write_text(json.dumps(manifest, indent=1, ensure_ascii=False) + "\n", "utf-8")
        card = _CARD.format(configs="\n".join(configs), name=folder.resolve().name, n=len(rows))
        (out / "README.md").write_text(card, "utf-8")
    return counts


def rows_of_folder(folder: Path) -> list[dict[str, Any]]:
    """The rows of a folder of relationship files, as they stand in a built dataset.

    Raises:
        H2HTalkError: a record or a file is not valid; names the first problem.

    """
    records, problems = read_folder(folder)
    if problems:
        more = f" ({len(problems) - 1} more: h2htalk corpus check {folder})" if len(problems) > 1 else ""
        raise H2HTalkError(f"{folder / problems[0]}{more}")
    columns = features()
    return [record_row(record, columns) for record in records]


def _repeated_numbers(files: Sequence[Path]) -> list[str]:
    """Files with the same number, whose records would have the same ids."""
    first: dict[int, Path] = {}
    problems = []
    for file in files:
        number = re.match(r"\d+(?=-)", file.name)
        other = first.setdefault(int(number[0]), file) if number else file
        if other is not file:
            problems.append(f"{file.name}: id: has the number of {other.name}, so their records have the same ids")
    return problems


def _problems_of_record(record: Record) -> list[str]:
    problems = []
    texts = {"reference": record.reference}
    texts |= {f"alternative {number}": text for number, text in enumerate(record.alternatives, 1)}
    for name, text in texts.items():
        if error := format_error(record, text):
            problems.append(f"{name}: {error}")
    spoken = "\n".join([record.reference, *(turn.content for turn in record.history)])
    letters = [character for character in spoken if character.isalpha()]
    han = len(_HAN.findall(spoken)) / max(1, len(letters))
    if han < _LEAST_HAN if record.language == "zh" else han > _MOST_HAN:
        problems.append(f"language: the file is in {record.language!r}, the record is not; a file has one language")
    return problems
