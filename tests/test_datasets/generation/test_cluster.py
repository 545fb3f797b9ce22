"""The job files of cluster/: read by bash and by accelerate, and run here with two launchers instead of Slurm."""

import subprocess
from contextlib import ExitStack

import pytest
from accelerate.commands.config.config_args import ClusterConfig
from helpers.launch import arguments, free_port, lines_on_disk, prediction_ids, started
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
@pytest.mark.timeout(1800)  # several processes on a busy machine
@pytest.mark.parametrize("file", ["slurm.sbatch", "slurm-node-local.sbatch"])
def test_the_job_file_makes_a_complete_run(file, slurm, tiny_model, tmp_path):
    settings = Settings(model=str(tiny_model), tasks="DialogueBase", limit=40, batch_size=2)
    out = tmp_path / "run"
    options = arguments(settings, out)
    if file == "slurm-node-local.sbatch":
        options = [str(out), *options[: options.index("--out")], *options[options.index("--out") + 2 :]]
    command = ["bash", str(CLUSTER / file), *options]
    done = subprocess.run(
        command, env=slurm, cwd=CLUSTER.parent, capture_output=True, text=True, check=False, timeout=900
    )
    assert done.returncode == 0, done.stderr
    assert (out / "predictions.jsonl").read_bytes() == generate(settings, tmp_path / "expected").read_bytes()
    assert lines_on_disk(out) >= 40
    assert not list(tmp_path.glob("h2htalk-*")), "the nodes' disks are empty"
    assert not (tmp_path / "run.nodes").exists(), "a new run of this name would merge it"


def of_array(slurm, number, **environment):
    """The environment of one job of an array of three."""
    own = {"SLURM_ARRAY_TASK_COUNT": "3", "SLURM_ARRAY_TASK_ID": str(number)}
    return slurm | own | {key: str(value) for key, value in environment.items()}


def test_a_job_of_an_array_is_one_of_its_jobs(submit):
    done = submit("slurm-array.sbatch", "--model", "m", "--out", "run", SLURM_ARRAY_TASK_COUNT="64")
    assert done.stdout == "h2htalk generate --jobs 64 --model m --out run\n"
    done = submit("slurm-array.sbatch", "--model", "m", merge="exit 2", SLURM_ARRAY_TASK_COUNT="64")
    assert done.returncode == 2


@pytest.mark.parametrize("model", [["--model", "m"], ["--model=m"]])
def test_a_server_is_started_with_as_many_copies_as_fit(model, submit):
    port = free_port()
    one = {"SLURM_GPUS_ON_NODE": "8", "TP": "2", "PORT": port, "SLURM_ARRAY_TASK_COUNT": "3"}
    done = submit("slurm-serve.sbatch", *model, "--out", "run", SERVE_OPTIONS="--quantization fp8", **one)
    assert done.returncode == 0, done.stderr
    served, client = done.stdout.splitlines()
    assert served.startswith("vllm serve m --host 127.0.0.1 ")
    assert " --tensor-parallel-size 2 --data-parallel-size 4 " in served
    assert served.endswith(" --quantization fp8")
    base_url = f"--base-url http://127.0.0.1:{port}/v1"
    assert client == f"h2htalk generate --jobs 3 {base_url} --max-connections 512 {' '.join(model)} --out run"


def test_a_server_that_ends_or_has_no_model_is_one_line(submit, tmp_path):
    (tmp_path / "bin" / "vllm").write_text("#!/bin/bash\nexit 1\n")
    one = {"PORT": free_port(), "SLURM_ARRAY_TASK_COUNT": "3"}
    done = submit("slurm-serve.sbatch", "--model", "m", **one)
    assert (done.returncode, done.stderr.splitlines()[-1]) == (2, "error: vllm serve has ended, see above")
    done = submit("slurm-serve.sbatch", "--out", "run", **one)
    assert (done.returncode, done.stderr) == (2, "error: name the model, --model NAME\n")


def test_a_client_that_fails_and_a_preemption_end_the_job_and_its_server(submit):
    one = {"PORT": free_port(), "SLURM_ARRAY_TASK_COUNT": "3"}
    assert submit("slurm-serve.sbatch", "--model", "m", merge="exit 2", **one).returncode == 2
    preempted = "kill -TERM $PPID; exec sleep 30"
    assert submit("slurm-serve.sbatch", "--model", "m", merge=preempted, **one).returncode == 143


@pytest.mark.slow
@pytest.mark.timeout(1800)  # several processes on a busy machine
def test_three_jobs_of_an_array_make_a_complete_run(slurm, tiny_model, tmp_path):
    settings = Settings(model=str(tiny_model), tasks="DialogueBase", limit=40, batch_size=2)
    out = tmp_path / "run"
    command = ["bash", str(CLUSTER / "slurm-array.sbatch"), *arguments(settings, out)]
    with ExitStack() as stack:
        jobs = [stack.enter_context(started(command, tmp_path / f"log{n}", **of_array(slurm, n))) for n in range(3)]
        for job in jobs:
            assert job.ended_within(900) == 0, job.output
    assert (out / "predictions.jsonl").read_bytes() == generate(settings, tmp_path / "expected").read_bytes()


@pytest.mark.slow
@pytest.mark.timeout(1800)  # several processes on a busy machine
def test_jobs_with_a_server_each_continue_after_a_crash(slurm, tmp_path):
    options = ["--model", "m", "--tasks", "DialogueBase", "--limit", "40", "--timeout", "5", "--out", tmp_path / "run"]
    command = ["bash", str(CLUSTER / "slurm-serve.sbatch"), *map(str, options)]
    port = free_port()
    with started(command, tmp_path / "crash", **of_array(slurm, 0, PORT=port, SERVER_ENDS_AFTER=15)) as job:
        assert job.ended_within(900) == 2, job.output
    assert 0 < lines_on_disk(tmp_path / "run") <= 15
    with started(command, tmp_path / "again", **of_array(slurm, 1, PORT=port)) as job:
        assert job.ended_within(900) == 0, job.output
    assert len(prediction_ids((tmp_path / "run" / "predictions.jsonl").read_bytes())) == 40
    assert lines_on_disk(tmp_path / "run") == 40
