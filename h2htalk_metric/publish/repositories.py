"""The folders of dataset, metric and leaderboard, as their repositories are to be."""

__all__ = ["AFTERWARDS", "BENCHMARK", "KINDS", "prepare_folder"]

import re
import shutil
from importlib.metadata import version
from pathlib import Path
from typing import Any

import yaml

import h2htalk_datasets
from h2htalk_datasets.builder import DESCRIPTION
from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.tasks import TASKS

KINDS = {"dataset": "dataset", "metric": "space", "leaderboard": "space", "results": "model"}
"""What can be published, and the type of the repository that it goes to."""

BENCHMARK = "eval.yaml"
"""The file that makes a dataset a benchmark; it goes into a commit of its own, since the Hub may refuse it."""

_BUILT = "The Space is built once what its requirements.txt names can be installed: a release on PyPI, or see --package"

AFTERWARDS = {
    "dataset": (
        "The Hub may refuse eval.yaml until h2htalk is on its list of evaluation frameworks (EVALUATION_FRAMEWORKS in "
        "huggingface.js), and shows leaderboards only for datasets on its allow-list: see "
        "https://huggingface.co/docs/hub/eval-results"
    ),
    "metric": _BUILT,
    "leaderboard": (
        f"{_BUILT}. Submitting stays off until the Space has the variable H2HTALK_BOARD_REPO, the id of a dataset "
        "repository, and the secret HF_TOKEN that may write there"
    ),
    "results": "The Hub shows these figures once the benchmark's dataset is on its allow-list",
}
"""What is left to do when it is published, by kind."""

_METRIC = Path(__file__).parents[1]


def prepare_folder(kind: str, repo: str, parent: Path, package: str | None = None) -> Path:
    """Write exactly the files of a repository, and check its card.

    Args:
        kind: ``dataset``, ``metric`` or ``leaderboard``.
        repo: ``ORG/NAME``, which the card's examples name.
        parent: the folder ``NAME`` is made in it.
        package: where a Space gets h2htalk from, as pip takes it (a wheel's address, or ``git+https://...@COMMIT``);
            this version's release on PyPI if not given.

    Returns:
        The folder. `load_dataset` takes that of the dataset, `evaluate.load` that of the metric.

    Raises:
        H2HTalkError: the repository's name can't be used, the folder is not empty, or the card is not valid.

    """
    name = repo_name(repo)
    if kind == "metric" and not name.isidentifier():
        raise H2HTalkError(f"evaluate loads {name}.py as a module, so {name!r} must be a Python name; use underscores")
    if kind == "metric" and name in ("h2htalk_metric", "h2htalk_datasets"):
        raise H2HTalkError(f"{name}.py would hide the installed package {name} in the Space; choose another name")
    folder = empty_folder(parent / name)
    {"dataset": _dataset, "metric": _metric, "leaderboard": _leaderboard}[kind](folder, repo)
    if KINDS[kind] == "space":
        wanted = "h2htalk[leaderboard]" if kind == "leaderboard" else "h2htalk"
        source = f" @ {package}" if package else f"=={version('h2htalk')}"
        (folder / "requirements.txt").write_text(f"{wanted}{source}\n", "utf-8")
    _check_card(folder, kind)
    return folder


def repo_name(repo: str) -> str:
    """NAME of ``ORG/NAME``."""
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils import validate_repo_id

    try:
        validate_repo_id(repo)
        _, name = repo.split("/")
    except (HFValidationError, ValueError):
        raise H2HTalkError(f"--repo must be ORG/NAME, as in my-team/h2htalk; got {repo!r}") from None
    return name


def empty_folder(folder: Path) -> Path:
    """Make a folder; nothing that is already there is replaced."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise H2HTalkError(f"{folder} is not empty; remove it, or name another place with --out")
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
    """``eval.yaml``: what the Hub makes a benchmark of, with a leaderboard for each config (docs/hub/eval-results).

    Overall is no config, so it has no leaderboard there. `evaluation_framework` is required, and this benchmark's
    scoring is its own: another's name would promise that the other gives these figures.
    """
    return {
        "name": "H2HTalk",
        "description": DESCRIPTION,
        "evaluation_framework": "h2htalk",
        "tasks": [{"id": name, "config": name, "split": "test"} for name in TASKS],
    }


def _metric(folder: Path, repo: str) -> None:
    (folder / "README.md").write_text(_card(_METRIC / "README.md", repo), "utf-8")
    shutil.copyfile(_METRIC / "h2htalk_metric.py", folder / f"{folder.name}.py")
    shutil.copyfile(Path(__file__).parent / "files" / "app.py", folder / "app.py")


def _leaderboard(folder: Path, repo: str) -> None:
    # The board itself is in the installed package; the Space starts it.
    for name in ("README.md", "app.py"):
        shutil.copyfile(_METRIC / "leaderboard" / name, folder / name)


def _card(file: Path, repo: str) -> str:
    """A card whose examples load from the repository, which needs no `h2htalk prepare`."""
    text = re.sub(r'(load_dataset|evaluate\.load)\("h2htalk"', rf'\1("{repo}"', file.read_text("utf-8"))
    return re.sub(r"  # after `h2htalk prepare`(?:; )?(.*)", lambda found: f"  # {found[1]}" if found[1] else "", text)


def _check_card(folder: Path, kind: str) -> None:
    """Read the card with huggingface_hub's own classes, and see that the files it names are there."""
    from huggingface_hub import DatasetCard, SpaceCard

    try:
        card = (DatasetCard if kind == "dataset" else SpaceCard).load(folder / "README.md")
    except (ValueError, yaml.YAMLError) as error:
        raise H2HTalkError(f"the card {folder / 'README.md'} is not valid: {error}") from None
    data = card.data.to_dict()
    wanted = {"license", "configs"} if kind == "dataset" else {"license", "title", "sdk", "sdk_version", "app_file"}
    absent = sorted(wanted - data.keys())
    files = [part["path"] for config in data.get("configs", []) for part in config["data_files"]]
    files += [data["app_file"]] if "app_file" in data else []
    absent += [file for file in files if not (folder / file).is_file()]
    if absent:
        raise H2HTalkError(f"the card {folder / 'README.md'} is not valid, it lacks: {', '.join(absent)}")
