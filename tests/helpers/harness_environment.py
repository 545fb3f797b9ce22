"""A virtual environment per harness: its own packages, with ours visible, so that torch is not installed again.

Each is a folder ``.venv-<harness>`` next to the project's own and is used again by later test runs.
"""

import subprocess
import sys
import sysconfig
from pathlib import Path

from helpers.paths import ROOT

REQUIREMENTS = {
    "lm-eval": ["lm-eval==0.4.13"],
    # lighteval 0.13 calls functions that huggingface_hub 2 and xxhash 4 removed.
    "lighteval": ["lighteval==0.13.0", "huggingface_hub<2", "xxhash<4", "inspect-ai==0.3.285"],
    "inspect": ["inspect-ai==0.3.285"],
}


def harness_command(harness: str, command: str) -> Path:
    """The path of a console command of a harness; installs the harness first if necessary."""
    folder = ROOT / f".venv-{harness}"
    stamp = folder / "installed"
    content = "\n".join([sys.prefix, *REQUIREMENTS[harness]])
    if not stamp.exists() or stamp.read_text() != content:
        _install(folder, REQUIREMENTS[harness])
        stamp.write_text(content)
    return folder / "bin" / command


def _install(folder: Path, requirements: list[str]) -> None:
    python = folder / "bin" / "python"
    _run(sys.executable, "-m", "venv", "--clear", "--without-pip", str(folder))
    site = _run(str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
    # addsitedir also reads the .pth files of our environment, where the project may be an editable installation.
    Path(site, "parent.pth").write_text(f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n")
    _run(sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", *requirements)
    if folder.name == ".venv-lighteval":
        # lighteval downloads this file at import, for one of its own tasks; the tests have no network.
        Path(site, "lighteval/tasks/tasks/tinyBenchmarks.pkl").touch()


def _run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout
