"""The folders of dataset, metric and leaderboard, with exactly the files of their repositories."""

__all__ = [
    "BENCHMARK",
    "KINDS",
    "NEXT_STEPS",
    "check_card",
    "complete_languages",
    "empty_folder",
    "name_of_repo",
    "prepare_folder",
]

import re
import shutil
from importlib.metadata import version
from pathlib import Path
from typing import Any

import yaml

import h2htalk_datasets
from h2htalk_datasets.builder import DESCRIPTION
from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.languages import LANGUAGES, Language
from h2htalk_datasets.loading import manifest
from h2htalk_datasets.tasks import TASKS

KINDS = {"dataset": "dataset", "metric": "space", "leaderboard": "space", "results": "model"}
"""What can be published, with the type of its repository on the Hub."""

BENCHMARK = "eval.yaml"
"""The file that makes a dataset a benchmark. It is a commit of its own, since the Hub may refuse it."""

_SPACE = "The Space is built as soon as its requirements.txt can be installed: with a release on PyPI, or see --package"

NEXT_STEPS = {
    "dataset": (
        "The Hub may refuse eval.yaml until h2htalk is on its list of evaluation frameworks (EVALUATION_FRAMEWORKS in "
        "huggingface.js), and shows leaderboards only for datasets on its allow-list: see "
        "https://huggingface.co/docs/hub/eval-results"
    ),
    "metric": _SPACE,
    "leaderboard": (
        f"{_SPACE}. Submitting is off until the Space has the variable H2HTALK_BOARD_REPO, the id of a dataset "
        "repository, and the secret HF_TOKEN that may write to it"
    ),
    "results": "The Hub shows these figures as soon as the benchmark's dataset is on its allow-list",
}
"""What is left to do after publishing, by kind."""

_METRIC = Path(__file__).parents[1]


def prepare_folder(kind: str, repo: str, parent: Path, package: str | None = None) -> Path:
    """Write the files of a repository, and check its card.

    Args:
        kind: ``dataset``, ``metric`` or ``leaderboard``.
        repo: ``ORG/NAME``; the card's examples use it.
        parent: the folder ``NAME`` is created in it.
        package: what pip installs h2htalk from in a Space (URL of a wheel, or ``git+https://...@COMMIT``); None: this
            version's release on PyPI.

    Returns:
        The folder. `load_dataset` loads that of the dataset, `evaluate.load` that of the metric.

    Raises:
        H2HTalkError: the name is not valid for this kind, the folder is not empty, or the card is not valid.

    """
    name = name_of_repo(repo)
    if kind == "metric" and not name.isidentifier():
        raise H2HTalkError(f"evaluate loads {name}.py as a module, so {name!r} must be an identifier; use underscores")
    if kind == "metric" and name in ("h2htalk_metric", "h2htalk_datasets"):
        raise H2HTalkError(f"{name}.py would hide the installed package {name} in the Space; choose another name")
    folder = empty_folder(parent / name)
    {"dataset": _dataset, "metric": _metric, "leaderboard": _leaderboard}[kind](folder, repo)
    if KINDS[kind] == "space":
        requirement = "h2htalk[leaderboard]" if kind == "leaderboard" else "h2htalk"
        source = f" @ {package}" if package else f"=={version('h2htalk')}"
        (folder / "requirements.txt").write_text(f"{requirement}{source}\n", "utf-8")
    check_card(folder, kind)
    return folder


def name_of_repo(repo: str) -> str:
    """NAME of ``ORG/NAME``.

    Raises:
        H2HTalkError: it is not a valid repository id.

    """
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils import validate_repo_id

    try:
        validate_repo_id(repo)
        _, name = repo.split("/")
    except (HFValidationError, ValueError):
        raise H2HTalkError(f"--repo must be ORG/NAME, as in my-team/h2htalk; got {repo!r}") from None
    return name


def empty_folder(folder: Path) -> Path:
    """Create a folder.

    Raises:
        H2HTalkError: it exists and is not empty.

    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise H2HTalkError(f"{folder} is not empty; remove it, or choose another place with --out")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _dataset(folder: Path, repo: str) -> None:
    source = h2htalk_datasets.path()
    (folder / "README.md").write_text(_card(source / "README.md", repo), "utf-8")
    shutil.copyfile(source / "LICENSE-DATA", folder / "LICENSE")
    for part in ("data", "figures"):
        shutil.copytree(source / part, folder / part)
    (folder / BENCHMARK).write_text(yaml.safe_dump(_benchmark(), sort_keys=False), "utf-8")


def _benchmark() -> dict[str, Any]:
    """``eval.yaml``: makes the dataset a benchmark with a leaderboard per config (Hub docs, eval-results).

    Overall is not a config, so it has no leaderboard there. `evaluation_framework` is required; the name of another
    framework would promise that it computes the same figures.
    """
    return {
        "name": "H2HTalk",
        "description": DESCRIPTION,
        "evaluation_framework": "h2htalk",
        "tasks": [
            {"id": config, "config": config, "split": "test"}
            for language in complete_languages()
            for config in (f"{task}{language.config_suffix}" for task in TASKS)
        ],
    }


def complete_languages() -> list[Language]:
    """The languages that have all records of Table 1; only these are benchmarks on the Hub."""
    counts = {task.name: task.count for task in TASKS.values()}
    return [language for language in LANGUAGES.values() if manifest(language.code)["counts"] == counts]


def _metric(folder: Path, repo: str) -> None:
    (folder / "README.md").write_text(_card(_METRIC / "README.md", repo), "utf-8")
    shutil.copyfile(_METRIC / "h2htalk_metric.py", folder / f"{folder.name}.py")
    shutil.copyfile(Path(__file__).parent / "files" / "app.py", folder / "app.py")


def _leaderboard(folder: Path, repo: str) -> None:
    # The Space starts the board of the installed package.
    for name in ("README.md", "app.py"):
        shutil.copyfile(_METRIC / "leaderboard" / name, folder / name)


def _card(file: Path, repo: str) -> str:
    """The card with examples that load from the repository, which does not need `h2htalk prepare`."""
    text = re.sub(r'(load_dataset|evaluate\.load)\("h2htalk"', rf'\1("{repo}"', file.read_text("utf-8"))
    return re.sub(r"  # after `h2htalk prepare`(?:; )?(.*)", lambda match: f"  # {match[1]}" if match[1] else "", text)


def check_card(folder: Path, kind: str) -> None:
    """Check ``README.md`` with huggingface_hub's own classes, and that the files it names exist.

    Raises:
        H2HTalkError: the card is not valid, or something is missing.

    """
    from huggingface_hub import DatasetCard, SpaceCard

    try:
        card = (DatasetCard if kind == "dataset" else SpaceCard).load(folder / "README.md")
    except (ValueError, yaml.YAMLError) as error:
        raise H2HTalkError(f"the card {folder / 'README.md'} is not valid: {error}") from None
    data = card.data.to_dict()
    required = {"license", "configs"} if kind == "dataset" else {"license", "title", "sdk", "sdk_version", "app_file"}
    missing = sorted(required - data.keys())
    files = [part["path"] for config in data.get("configs", []) for part in config["data_files"]]
    files += [data["app_file"]] if "app_file" in data else []
    missing += [file for file in files if not (folder / file).is_file()]
    if missing:
        raise H2HTalkError(f"the card {folder / 'README.md'} is not valid; missing: {', '.join(missing)}")
