"""Run the notebooks from top to bottom and keep what they show.

python notebooks/run.py                                  all of them
python notebooks/run.py notebooks/1_quickstart.ipynb     some
"""

__all__ = ["NOTEBOOKS", "executed"]

import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import nbformat
from ipykernel.kernelspec import write_kernel_spec
from jupyter_client.kernelspec import KernelSpecManager
from nbclient import NotebookClient

NOTEBOOKS = sorted(Path(__file__).parent.glob("*.ipynb"))
"""All notebooks, in the order in which they are read."""


def executed(file: Path) -> nbformat.NotebookNode:
    """Run every cell of a notebook in a new kernel of this Python, with caches of its own.

    Args:
        file: the notebook, which is left as it is.

    Returns:
        The notebook with its new outputs.

    Raises:
        CellExecutionError: a cell failed.

    """
    notebook = nbformat.read(file, as_version=4)
    with TemporaryDirectory() as place:
        # Commands of this environment come first; no verdict and no cache of an earlier run is met.
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        own = {"PATH": path, "HF_HOME": place, "TMPDIR": place, "HF_HUB_OFFLINE": "1"}
        own["PYTHONWARNINGS"] = "ignore:IProgress not found"  # tqdm asks for ipywidgets; no bar is shown anyway
        write_kernel_spec(Path(place) / "kernels" / "python3", overrides={"env": own})
        client = NotebookClient(notebook, timeout=1500, startup_timeout=300, record_timing=False, coalesce_streams=True)
        client.create_kernel_manager().kernel_spec_manager = KernelSpecManager(kernel_dirs=[f"{place}/kernels"])
        client.execute()
    notebook.metadata.language_info = {"name": "python"}  # its version is no part of what is shown
    return notebook


if __name__ == "__main__":
    for chosen in map(Path, sys.argv[1:] or NOTEBOOKS):
        print(chosen, flush=True)
        nbformat.write(executed(chosen), chosen)
