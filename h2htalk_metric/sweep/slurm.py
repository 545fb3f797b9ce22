"""One Slurm job per model: the project's job file generates, then the same job scores, judges and compares."""

__all__ = ["JOB_FILE", "submit_job", "write_job"]

import json
import shlex
import subprocess
from collections.abc import Sequence
from pathlib import Path

from h2htalk_datasets.errors import H2HTalkError, one_line
from h2htalk_datasets.files import write_atomically
from h2htalk_metric.sweep.models_file import Entry
from h2htalk_metric.sweep.step_log import JOB
from h2htalk_metric.sweep.sweep import Sweep

JOB_FILE = Path("cluster/slurm.sbatch")
"""In the checkout, where jobs are submitted."""


def write_job(sweep: Sweep, entry: Entry, sweep_arguments: Sequence[str]) -> Path:
    """Write ``NAME.sbatch``: the project's job file, and what follows the generation.

    Args:
        sweep: whose folder gets the file.
        entry: the model.
        sweep_arguments: of the ``h2htalk sweep`` command that submits, without ``--submit``.

    Raises:
        H2HTalkError: there is no job file in the current folder.

    """
    try:
        text = JOB_FILE.read_text("utf-8")
    except OSError as error:
        raise H2HTalkError(f"cannot read {JOB_FILE} ({error.strerror}); submit in the checkout of h2htalk") from None
    end = {"entry": entry.name, "step": JOB, "seconds": "%d", "code": "%d", "failure": f"see {entry.name}.log"}
    line = json.dumps(end).replace('"%d"', "%d")
    # However the generation ends, its time is in the log of the sweep; what follows it logs its own time.
    start = "set -euo pipefail\n"
    log_end = f"log_end() {{ printf {shlex.quote(line)}'\\n' $SECONDS $1 >> {shlex.quote(str(sweep.log.file))}; }}\n"
    after = shlex.join(["h2htalk", "sweep", *sweep_arguments, "--only", entry.name])
    file = sweep.folder / f"{entry.name}.sbatch"
    job = text.replace(start, f"{start}{log_end}trap 'log_end $?' EXIT\n", 1)
    write_atomically(file, f"{job}\nlog_end 0\ntrap - EXIT\n{after}\n")
    return file


def submit_job(sweep: Sweep, entry: Entry, file: Path) -> str:
    """Submit the job of an entry, unless it is in the queue; return what happened.

    Raises:
        H2HTalkError: Slurm is not installed, or refuses the job.

    """
    job = f"h2htalk-{entry.name}"
    queued = _slurm("squeue", "--me", "--noheader", f"--name={job}", "--format=%i").split()
    if queued:
        return f"already in the queue as job {', '.join(queued)}"
    own = [f"--{key.replace('_', '-')}={value}" for key, value in entry.slurm.items()]
    options = [f"--job-name={job}", f"--output={sweep.folder / entry.name}.log", *own]
    command = sweep.generation(entry)
    sweep.log.started(entry.name, JOB, command)
    arguments = [*entry.arguments("generate"), "--out", str(sweep.run_folder(entry))]
    return _slurm("sbatch", *options, str(file), *arguments).strip()


def _slurm(*command: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    except FileNotFoundError:
        raise H2HTalkError(f"{command[0]} is not installed; submit on a machine of a Slurm cluster") from None
    except subprocess.CalledProcessError as error:
        reason = one_line(Exception(error.stderr or error.stdout or str(error)))
        raise H2HTalkError(f"{command[0]}: {reason}") from None
    return done.stdout
