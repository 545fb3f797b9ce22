"""The job files of cluster/: read by bash and by accelerate, and run here with two launchers instead of Slurm."""

import os
import subprocess
import sys

import pytest
from accelerate.commands.config.config_args import ClusterConfig
from helpers.launch import arguments, lines_on_disk
from helpers.paths import ROOT

from h2htalk_datasets.generation import Settings, generate

CLUSTER = ROOT / "cluster"
# A replacement of Slurm's srun: two tasks on this machine, each with the number that Slurm would set. Like the real one
# it ends when all of its tasks have ended, with the highest of their exit codes.
SRUN = """#!/bin/bash
while [[ $1 = --* ]]; do echo "srun $1"; shift; done
SLURM_NODEID=0 "$@" & first=$!
SLURM_NODEID=1 "$@" & second=$!
wait $first; one=$?
wait $second; other=$?
exit $((one > other ? one : other))
"""
SLURM = {"SLURM_JOB_NODELIST": "node[1-2]", "SLURM_JOB_NUM_NODES": "2", "SLURM_GPUS_ON_NODE": "1"}
SLURM |= {"SLURM_CPUS_PER_TASK": "32"}


@pytest.fixture
def slurm(tmp_path):
    """An environment in which the job files use a replacement of Slurm with two nodes, and this interpreter."""
    programs = {
        "srun": SRUN,
        "scontrol": "#!/bin/bash\necho 127.0.0.1\n",
        "accelerate": f'#!/bin/bash\nshift\nexec {sys.executable} -m accelerate.commands.launch "$@"\n',
        "h2htalk": f'#!/bin/bash\nexec {sys.executable} -c "from h2htalk_metric.cli.main import main; main()" "$@"\n',
    }
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, text in programs.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    path = f"{folder}:{os.environ['PATH']}"
    return {**os.environ, **SLURM, "PATH": path, "SLURM_JOB_ID": str(os.getpid()), "DISK": str(tmp_path)}


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
