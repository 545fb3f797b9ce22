"""A virtual environment per harness: its own packages, with ours visible, so that torch is not installed again.

Each is a folder ``.venv-<harness>`` next to the project's own and is used again by later test runs.
"""

import shutil
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

import pytest

from helpers.paths import ROOT


@dataclass(frozen=True)
class Harness:
    """What an environment has.

    Attributes:
        requirements: installed with their dependencies.
        alone: installed before, without their dependencies.
        python: lowest version; the environment of such a harness does not see our packages.

    """

    requirements: tuple[str, ...]
    alone: tuple[str, ...] = ()
    python: tuple[int, int] | None = None


HARNESSES = {
    "lm-eval": Harness(("lm-eval==0.4.13",)),
    # lighteval 0.13 calls functions that huggingface_hub 2 and xxhash 4 removed.
    "lighteval": Harness(("lighteval==0.13.0", "huggingface_hub<2", "xxhash<4", "inspect-ai==0.3.285")),
    "inspect": Harness(("inspect-ai==0.3.285",)),
    # As the README of the export says.
    "opencompass": Harness(
        tuple(
            "transformers<5 datasets==4.0.0 addict fuzzywuzzy h5py importlib-metadata jsonlines prettytable "
            "python-Levenshtein rank-bm25 rouge rouge-chinese tabulate termcolor tiktoken timeout-decorator "
            "tree-sitter tree-sitter-languages yapf".split()
        ),
        alone=("opencompass==0.5.4", "mmengine-lite==0.11.0rc3"),
    ),
    # Its Transformers provider does not run with Transformers 5.
    "evalscope": Harness(("evalscope==1.14.1", "transformers<5")),
    # The validator needs few of the package's dependencies.
    "every-eval-ever": Harness(
        ("pydantic>=2.12.5", "pyyaml>=6.0.3", "requests>=2.32.5", "rich<15"), ("every-eval-ever==0.3.0",), (3, 12)
    ),
}


def harness_command(harness: str, command: str) -> Path:
    """The path of a console command of a harness; installs the harness first if necessary.

    Skips the test if the harness needs a Python that is not installed.
    """
    folder, content = ROOT / f".venv-{harness}", "\n".join([sys.prefix, repr(HARNESSES[harness])])
    stamp = folder / "installed"
    if not stamp.exists() or stamp.read_text() != content:
        _install(folder, HARNESSES[harness])
        stamp.write_text(content)
    return folder / "bin" / command


def _install(folder: Path, harness: Harness) -> None:
    python = folder / "bin" / "python"
    base = sys.executable if harness.python is None else _find_python(harness.python)
    _run(base, "-m", "venv", "--clear", "--without-pip", str(folder))
    site = _run(str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
    if harness.python is None:
        # addsitedir also reads the .pth files of our environment, where the project may be an editable installation.
        Path(site, "parent.pth").write_text(f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n")
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet"]
    if harness.alone:
        _run(*pip, "--no-deps", *harness.alone)
    _run(*pip, *harness.requirements)
    if folder.name == ".venv-lighteval":
        # lighteval downloads this file at import, for one of its own tasks; the tests have no network.
        Path(site, "lighteval/tasks/tasks/tinyBenchmarks.pkl").touch()


def _find_python(lowest: tuple[int, int]) -> str:
    """A Python of at least this version, on the path or of pyenv."""
    major, minor = lowest
    names = [f"python{major}.{number}" for number in range(minor, minor + 4)]
    of_pyenv = sorted(map(str, Path.home().glob(".pyenv/versions/*/bin/python")))
    for candidate in (sys.executable, *filter(None, map(shutil.which, names)), *of_pyenv):
        program = f"import sys, venv; sys.exit(sys.version_info < {lowest})"
        if subprocess.run([candidate, "-c", program], capture_output=True, check=False).returncode == 0:
            return candidate
    pytest.skip(f"no Python {major}.{minor} or later")


def _run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout
