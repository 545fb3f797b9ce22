"""The examples run."""

import subprocess
import sys

import pytest
from helpers.paths import ROOT


@pytest.mark.very_slow
@pytest.mark.slow
def test_the_example_fine_tunes_and_keeps_the_best_checkpoint(tiny_model, tmp_path):
    few = ["--steps", "4", "--eval-steps", "2", "--records", "2", "--learning-rate", "1e-2"]
    command = [sys.executable, str(ROOT / "examples" / "finetune_lora.py"), "--model", str(tiny_model), *few]
    done = subprocess.run([*command, "--out", str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "other relationships: composite " in done.stdout and "at step" in done.stdout
    assert (tmp_path / "best" / "adapter_config.json").exists()
    losses = [
        float(line.split("'eval_loss': '")[1].split("'")[0]) for line in done.stdout.splitlines() if "eval_loss" in line
    ]
    assert losses[-1] < losses[0]
