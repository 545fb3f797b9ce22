"""An environment for each harness: its own packages over ours, so that torch is not installed again.

Each is a folder `.venv-<harness>` beside the project's own, kept for the next time.
"""

import subprocess
import sys
import sysconfig
from pathlib import Path

from helpers.paths import ROOT

REQUIREMENTS = {
    "lm-eval": ["lm-eval==0.4.13"],
    # lighteval 0.13 calls what huggingface_hub 2 and xxhash 4 no longer have.
    "lighteval": ["lighteval==0.13.0", "huggingface_hub<2", "xxhash<4", "inspect-ai==0.3.285"],
    "inspect": ["inspect-ai==0.3.285"],
}
_ROOT = ROOT


def harness_command(harness: str, command: str) -> Path:
    """The path of a harness's console command, in an environment that is made if it is not there yet."""
    folder = _ROOT / f".venv-{harness}"
    stamp = folder / "installed"
    wanted = "\n".join([sys.prefix, *REQUIREMENTS[harness]])
    if not stamp.exists() or stamp.read_text() != wanted:
        _make(folder, REQUIREMENTS[harness])
        stamp.write_text(wanted)
    return folder / "bin" / command


def _make(folder: Path, requirements: list[str]) -> None:
    python = folder / "bin" / "python"
    _run(sys.executable, "-m", "venv", "--clear", "--without-pip", str(folder))
    site = _run(str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
    ours = sysconfig.get_path("purelib")
    # addsitedir reads the .pth files there, too: ours may be an editable installation.
    Path(site, "parent.pth").write_text(f"import site; site.addsitedir({ours!r})\n")
    _run(sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", *requirements)
    if folder.name == ".venv-lighteval":
        # lighteval fetches this file when it is imported, for a task of its own; there may be no network.
        Path(site, "lighteval/tasks/tasks/tinyBenchmarks.pkl").touch()


def _run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout
