"""A replacement of Slurm with two nodes on this machine, for the job files of cluster/."""

import os
import sys
from pathlib import Path

from helpers.paths import PROGRAMS

# Two tasks on this machine, each with the number that Slurm would set. Like the real one it ends when all of its tasks
# have ended, with the highest of their exit codes.
SRUN = """#!/bin/bash
while [[ $1 = --* ]]; do echo "srun $1"; shift; done
SLURM_NODEID=0 "$@" & first=$!
SLURM_NODEID=1 "$@" & second=$!
wait $first; one=$?
wait $second; other=$?
exit $((one > other ? one : other))
"""
# Runs the job at once, with its output in the file that Slurm would write.
SBATCH = """#!/bin/bash
while [[ $1 = --* ]]; do [[ $1 = --output=* ]] && output=${1#--output=}; echo "$1" >> "$JOBS"; shift; done
bash "$@" >> "$output" 2>&1
echo "Submitted batch job 7, exit code $?"
"""
JOB = {"SLURM_JOB_NODELIST": "node[1-2]", "SLURM_JOB_NUM_NODES": "2", "SLURM_GPUS_ON_NODE": "1"}
JOB |= {"SLURM_CPUS_PER_TASK": "32"}


def slurm_environment(folder: Path) -> dict[str, str]:
    """An environment in which job files use a replacement of Slurm with two nodes, and this interpreter.

    Args:
        folder: gets the programs, in ``bin``, and the options of submitted jobs, in ``jobs``.

    """
    programs = {
        "srun": SRUN,
        "sbatch": SBATCH,
        "squeue": '#!/bin/bash\ncat "$JOBS.queue" 2>/dev/null\nexit 0\n',
        "scontrol": "#!/bin/bash\necho 127.0.0.1\n",
        "accelerate": f'#!/bin/bash\nshift\nexec {sys.executable} -m accelerate.commands.launch "$@"\n',
        "vllm": f'#!/bin/bash\nexec {sys.executable} {PROGRAMS / "serve.py"} "$@"\n',
        "h2htalk": f'#!/bin/bash\nexec {sys.executable} -m h2htalk_metric.cli "$@"\n',
    }
    (folder / "bin").mkdir()
    for name, text in programs.items():
        (folder / "bin" / name).write_text(text)
        (folder / "bin" / name).chmod(0o755)
    own = {"PATH": f"{folder / 'bin'}:{os.environ['PATH']}", "JOBS": str(folder / "jobs"), "DISK": str(folder)}
    return {**os.environ, **JOB, **own, "SLURM_JOB_ID": str(os.getpid())}
