"""One run folder as an object: every file is read at most once."""

__all__ = ["Run", "cached_per_run"]

import json
from collections.abc import Callable
from functools import cached_property, wraps
from pathlib import Path
from typing import Any, TypeVar

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.fingerprint import fingerprint
from h2htalk_datasets.generation.requests import chosen_rows, data_of, languages_of, records_of_manifest
from h2htalk_datasets.generation.run_folder import RunFolder
from h2htalk_datasets.languages import LANGUAGES
from h2htalk_datasets.tasks import PROBE_SETS, TASKS

Result = TypeVar("Result")


class Run:
    """A run folder, read lazily.

    Scores, judgements and human scores are read by functions of a Run that are marked with :func:`cached_per_run`.

    Args:
        folder: the run folder, or a Run (used as it is by :meth:`of`).

    Attributes:
        folder: the :class:`~h2htalk_datasets.generation.run_folder.RunFolder`.

    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = RunFolder(folder)
        self.cache: dict[Any, Any] = {}

    @classmethod
    def of(cls, run: "Run | str | Path") -> "Run":
        """Return the Run itself, or open a folder as a new Run."""
        return run if isinstance(run, Run) else cls(run)

    @property
    def path(self) -> Path:
        """The folder's path."""
        return self.folder.path

    @cached_property
    def manifest(self) -> dict[str, Any]:
        """Content of ``run.json``.

        Raises:
            H2HTalkError: the folder is not a run folder.

        """
        return self.folder.manifest()

    @property
    def languages(self) -> list[str]:
        """Codes of the languages of its records, in the table's order."""
        languages = languages_of(self.manifest)
        return [code for code in LANGUAGES if code in languages]

    @cached_property
    def by_language(self) -> dict[str, "Run"]:
        """The run itself if it has one language, else its part in each language.

        Scores, intervals and tests are always of one language; nothing is averaged over languages.
        """
        if len(self.languages) == 1:
            return {self.languages[0]: self}
        return {code: _PartOfRun(self, code) for code in self.languages}

    def check_one_language(self) -> None:
        """Check that all records have the same language.

        Raises:
            H2HTalkError: they do not.

        """
        if len(self.languages) > 1:
            raise H2HTalkError(
                f"{self.path} has records in {' and '.join(self.languages)}, which have no common score; "
                "start a run with one --language for this"
            )

    @property
    def is_probe_run(self) -> bool:
        """Whether the records are those of a probe set and not of the eleven tasks."""
        return any(task in PROBE_SETS for task in self.manifest["dataset"]["tasks"])

    @property
    def complete(self) -> bool:
        """Whether ``predictions.jsonl`` exists."""
        return self.folder.predictions_file.exists()

    @property
    def model(self) -> str:
        """Model name, with the LoRA adapter if there is one. Untrusted text: escape it where you show it."""
        model = self.manifest["model"]
        return f"{model['name']} + {model['adapter']}" if model.get("adapter") else str(model["name"])

    @cached_property
    def predictions(self) -> list[dict[str, Any]]:
        """Prediction lines in the order of the records.

        Raises:
            H2HTalkError: the run is not complete, or a line is not a prediction.

        """
        file = self.folder.predictions_file
        if not file.exists():
            raise H2HTalkError(
                f"{self.path} is not complete; run the same `h2htalk generate` command again to finish it"
            )
        predictions = []
        for number, line in enumerate(file.read_bytes().splitlines(), 1):
            prediction = _prediction(line)
            if prediction is None:
                raise H2HTalkError(f"{file}, line {number}: not a prediction; run: h2htalk merge {self.path}")
            predictions.append(prediction)
        return predictions

    @cached_property
    def records(self) -> list[dict[str, Any]]:
        """The record of each prediction, of the eleven tasks or of a probe set, in the same order.

        In a roll-out, histories have the model's own answers (see :mod:`h2htalk_metric.probes.rollout`).

        Raises:
            H2HTalkError: the installed dataset is not the run's.

        """
        records = self._probe_records() if self.is_probe_run else self._task_records()
        if fingerprint(records) != self.manifest["dataset"]["fingerprint"]:
            raise H2HTalkError(
                f"{self.path} was made with another version of the dataset; install that version to read it"
            )
        if self.manifest["dataset"].get("rollout"):  # the fingerprint is that of the probe set, without the answers
            return [
                record | {"history": line["history"]} for record, line in zip(records, self.predictions, strict=True)
            ]
        return records

    def answers(self) -> dict[str, str]:
        """Prediction texts by record id."""
        return {line["id"]: line["prediction"] for line in self.predictions}

    def _task_records(self) -> list[dict[str, Any]]:
        tasks = [task for task in TASKS if any(line["task"] == task for line in self.predictions)]
        languages = ",".join(self.languages)
        installed = {row["id"]: row for row in chosen_rows(",".join(tasks), None, languages, data_of(self.manifest))}
        unknown = [line["id"] for line in self.predictions if line["id"] not in installed]
        if unknown:
            raise H2HTalkError(f"{len(unknown)} ids are not in the installed dataset, the first: {unknown[0]}")
        expected = self.manifest["dataset"]["n"]
        if len(self.predictions) != expected:
            raise H2HTalkError(f"{len(self.predictions)} predictions but run.json says {expected}")
        return [installed[line["id"]] for line in self.predictions]

    def _probe_records(self) -> list[dict[str, Any]]:
        records = records_of_manifest(self.manifest)
        if [record["id"] for record in records] != [line["id"] for line in self.predictions]:
            raise H2HTalkError(f"{self.path} was made with another version of the probe set; install that version")
        return records


class _PartOfRun(Run):
    """The records and answers of a run in one of its languages; files are those of the whole run."""

    def __init__(self, whole: Run, language: str) -> None:
        super().__init__(whole.path)
        self._whole, self._language = whole, language

    @cached_property
    def manifest(self) -> dict[str, Any]:
        own = self._whole.manifest["dataset"]["languages"][self._language]
        n = sum(record["language"] == self._language for record in self._whole.records)
        dataset = self._whole.manifest["dataset"] | {"fingerprint": own, "languages": {self._language: own}, "n": n}
        prompts = dict(self._whole.manifest["prompts"])
        prompts["hash"] = prompts.pop("languages")[self._language]
        return self._whole.manifest | {"dataset": dataset, "prompts": prompts}

    @cached_property
    def predictions(self) -> list[dict[str, Any]]:
        pairs = zip(self._whole.predictions, self._whole.records, strict=True)
        return [line for line, record in pairs if record["language"] == self._language]

    @cached_property
    def records(self) -> list[dict[str, Any]]:
        return [record for record in self._whole.records if record["language"] == self._language]


def cached_per_run(read: Callable[..., Result]) -> Callable[..., Result]:
    """Cache a function of a run on the :class:`Run`, by its other arguments, so that files are read once.

    The decorated function takes a Run or a folder; a folder gives a fresh Run, so nothing is shared between calls.
    """

    @wraps(read)
    def wrapper(run: Run | str | Path, *arguments: Any) -> Result:
        run = Run.of(run)
        key = (read.__module__, read.__qualname__, arguments)
        if key not in run.cache:
            run.cache[key] = read(run, *arguments)
        return run.cache[key]

    return wrapper


def _prediction(line: bytes) -> dict[str, Any] | None:
    try:
        prediction = json.loads(line)
        valid = isinstance(prediction["prediction"], str) and {"id", "task"} <= prediction.keys()
    except (ValueError, KeyError, TypeError):
        return None
    return prediction if valid else None
