"""The job files of cluster/: read by bash and by accelerate, and run here with two launchers instead of Slurm."""

import subprocess

import pytest
from accelerate.commands.config.config_args import ClusterConfig
from helpers.launch import arguments, lines_on_disk
from helpers.paths import ROOT
from helpers.slurm import slurm_environment

from h2htalk_datasets.generation import Settings, generate

CLUSTER = ROOT / "cluster"


@pytest.fixture
def slurm(tmp_path):
    return slurm_environment(tmp_path)


@pytest.mark.parametrize("file", sorted(CLUSTER.glob("*.sbatch")), ids=lambda file: file.name)
def test_bash_reads_the_job_file(file):
    subprocess.run(["bash", "-n", str(file)], check=True)


def test_accelerate_reads_its_configuration():
    config = ClusterConfig.from_yaml_file(CLUSTER / "accelerate.yaml")
    assert (config.num_machines, config.num_processes) == (8, 64)
    assert (config.distributed_type, config.rdzv_backend, config.mixed_precision) == ("MULTI_GPU", "static", "no")


@pytest.fixture
def submit(slurm, tmp_path):
    """Run a job file with other programs instead of the launcher and h2htalk, which print how they are called."""

    def run(file, *options, accelerate="", merge="", **environment):
        for name, body in (("accelerate", accelerate), ("h2htalk", merge)):
            (tmp_path / "bin" / name).write_text(f'#!/bin/bash\necho "{name} $*"\n{body}\n')
        command = ["bash", str(CLUSTER / file), *options]
        return subprocess.run(
            command, env=slurm | environment, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60
        )

    return run


@pytest.mark.parametrize("file", ["slurm.sbatch", "slurm-node-local.sbatch"])
@pytest.mark.parametrize(
    ("options", "processes"), [([], 16), (["--devices-per-replica", "2"], 8), (["--devices-per-replica=4", "--x"], 4)]
)
def test_a_job_file_requests_all_cores_and_one_process_per_replica(file, options, processes, submit):
    done = submit(file, "run", *options, SLURM_GPUS_ON_NODE="8")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines().count("srun --cpus-per-task=32") == 1
    assert done.stdout.count(f" --num_machines 2 --num_processes {processes} --machine_rank ") == 2


def test_what_an_earlier_job_copied_is_merged_first(submit, tmp_path):
    (tmp_path / "run.nodes" / "0").mkdir(parents=True)
    done = submit("slurm-node-local.sbatch", "run", merge="exit 2  # answers are missing")
    programs = [line.split()[0] for line in done.stdout.splitlines()]
    assert [programs[0], programs[-1]] == ["h2htalk", "h2htalk"] and programs.count("accelerate") == 2
    assert done.returncode == 1  # from the merge at the end


# A launcher that is stopped ends with 1.
PREEMPTED = "trap 'exit 1' TERM; sleep 0.2; kill -TERM $PPID; sleep 0.2; exit 1"


@pytest.mark.parametrize(("accelerate", "status"), [("exit 7", 7), (PREEMPTED, 143)], ids=["failed", "preempted"])
def test_a_merge_that_fails_does_not_hide_how_the_job_ended(accelerate, status, submit):
    done = submit("slurm-node-local.sbatch", "run", accelerate=accelerate, merge="exit 2")
    assert done.returncode == status, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "h2htalk merge run run.nodes/*/"


@pytest.mark.slow
@pytest.mark.parametrize("file", ["slurm.sbatch", "slurm-node-local.sbatch"])
def test_the_job_file_makes_a_complete_run(file, slurm, tiny_model, tmp_path):
    settings = Settings(model=str(tiny_model), tasks="DialogueBase", limit=40, batch_size=2)
    out = tmp_path / "run"
    options = arguments(settings, out)
    if file == "slurm-node-local.sbatch":
        options = [str(out), *options[: options.index("--out")], *options[options.index("--out") + 2 :]]
    command = ["bash", str(CLUSTER / file), *options]
    done = subprocess.run(
        command, env=slurm, cwd=CLUSTER.parent, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert (out / "predictions.jsonl").read_bytes() == generate(settings, tmp_path / "expected").read_bytes()
    assert lines_on_disk(out) >= 40
    assert not list(tmp_path.glob("h2htalk-*")), "the nodes' disks are empty"
    assert not (tmp_path / "run.nodes").exists(), "a new run of this name would merge it"
