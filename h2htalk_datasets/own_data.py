"""A user's own records for a run: a folder of relationship files, a built dataset folder, or a dataset on the Hub."""

__all__ = ["OwnData", "load_data"]

import json
import re
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from h2htalk_datasets.errors import H2HTalkError, one_line
from h2htalk_datasets.fingerprint import fingerprint
from h2htalk_datasets.languages import LANGUAGES
from h2htalk_datasets.schema import Record, problems_of
from h2htalk_datasets.tasks import TASKS

_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")


class OwnData:
    """Records that are not the shipped ones.

    Attributes:
        name: of the data, as a manifest and a report show it.
        source: absolute path of the folder, or id of a dataset on the Hub.
        rows: all records as plain dicts, language by language and task by task.

    """

    def __init__(self, name: str, source: str, rows: list[dict[str, Any]]) -> None:
        self.name, self.source, self.rows = name, source, rows

    @cached_property
    def languages(self) -> list[str]:
        """Codes of the languages of its records, in the table's order."""
        present = {row["language"] for row in self.rows}
        return [code for code in LANGUAGES if code in present]

    def records_of(self, task: str, language: str) -> list[dict[str, Any]]:
        """The records of one task in one language."""
        return [row for row in self.rows if (row["task"], row["language"]) == (task, language)]


def load_data(source: str) -> OwnData:
    """Load records from a folder or from the Hub.

    Args:
        source: a folder with relationship files, a folder that ``h2htalk corpus build`` wrote, or ``ORG/NAME``.

    Raises:
        H2HTalkError: there is neither, or a record is not valid; names file, record and rule.

    """
    from h2htalk_datasets.corpus.own import rows_of_folder

    folder = Path(source)
    if folder.is_dir():
        if next(folder.glob("*/manifest.json"), None):
            return _load_built(folder, str(folder.resolve()))
        if next(folder.glob("*.yaml"), None):
            return OwnData(folder.resolve().name, str(folder.resolve()), rows_of_folder(folder))
        raise H2HTalkError(
            f"{folder} has no relationship files and is not a dataset that `h2htalk corpus build` wrote; start with: "
            f"h2htalk new-relationship SLUG --folder {folder}"
        )
    if folder.exists() or not _HUB_ID.fullmatch(source):
        raise H2HTalkError(f"no data at {source!r}; name a folder, or the id of a dataset on the Hub (ORG/NAME)")
    return _load_built(_download(source), source)


def _load_built(folder: Path, source: str) -> OwnData:
    names: list[str] = []
    rows: list[dict[str, Any]] = []
    for language in LANGUAGES:
        file = folder / language / "manifest.json"
        if not file.exists():
            continue
        manifest = _manifest(file)
        own = [row for task in TASKS for row in _rows(folder / language / f"{task}.parquet")]
        if fingerprint(own) != manifest["fingerprint"]:
            raise H2HTalkError(f"{file.parent}: the records are not those of its manifest.json; build the data again")
        names.append(str(manifest.get("name") or folder.name))
        rows += own
    if not rows:
        raise H2HTalkError(f"{source} has no records in {' or '.join(LANGUAGES)}")
    return OwnData(names[0], source, rows)


def _manifest(file: Path) -> dict[str, Any]:
    try:
        manifest = json.loads(file.read_text("utf-8"))
        return manifest | {"fingerprint": str(manifest["fingerprint"])}
    except (ValueError, KeyError, TypeError):
        raise H2HTalkError(f"{file} is not the manifest of a dataset; build the data again") from None


def _rows(file: Path) -> list[dict[str, Any]]:
    import pyarrow
    import pyarrow.parquet

    if not file.exists():
        return []
    try:
        rows = pyarrow.parquet.read_table(file).to_pylist()
    except (pyarrow.ArrowException, OSError) as error:
        raise H2HTalkError(f"{file} cannot be read: {one_line(error)}") from None
    for row in rows:
        try:
            Record.model_validate(row)
        except ValidationError as error:
            raise H2HTalkError(f"{file}: {row.get('id')}: {problems_of(error)[0]}") from None
    return rows


def _download(repo: str) -> Path:
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(repo, repo_type="dataset", allow_patterns=["*/manifest.json", "*/*.parquet"]))
    except Exception as error:  # the Hub's errors have no common class
        raise H2HTalkError(f"cannot load the dataset {repo!r} from the Hub: {one_line(error)}") from None
