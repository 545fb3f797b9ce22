"""Do two ranks do twice the work? One process of one thread against two, and two of which one is half as fast.

One process is measured before and after the others, since a virtual machine's cores have neighbours.

    python benchmarks/scaling.py
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from results import write

RELATIONSHIPS, BATCH = 4, 8


def work(out: Path, slow: bool) -> None:
    """One rank: answers its share, and rank 0 writes the seconds and the answers' number; runs under torchrun."""
    import torch
    from generation import corpus_prompts

    from h2htalk_datasets.generation.in_memory import answer_all
    from h2htalk_datasets.generation.models import load_model
    from h2htalk_datasets.generation.transformers_engine import TransformersEngine
    from h2htalk_datasets.generation.work_queue import Group

    torch.set_num_threads(1)
    group = Group()
    engine = TransformersEngine(load_model("demo"))
    every = corpus_prompts()
    groups = list(dict.fromkeys(prompt.group for prompt in every))[:RELATIONSHIPS]
    prompts = [prompt for prompt in every if prompt.group in groups]
    if slow and group.rank == 1:
        real = engine.answer

        def half_as_fast(asked, seed):
            start = time.perf_counter()
            answers = real(asked, seed)
            time.sleep(time.perf_counter() - start)
            return answers

        engine.answer = half_as_fast
    group.gather(None)
    start = time.perf_counter()
    answers = answer_all(engine, prompts, batch_size=BATCH, seed=0, group=group, key="run")
    if group.first:
        out.write_text(f"{time.perf_counter() - start} {len(answers)}")
    group.close()


def launched(processes: int, slow: bool = False) -> tuple[float, str]:
    """The seconds that a job of so many processes takes, start-up aside, and how many answers it gave."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "seconds"
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", str(processes)]
        command += [__file__, "work", str(out), "slow" if slow else "even"]
        subprocess.run(command, check=True, env=os.environ | {"OMP_NUM_THREADS": "1"})
        took, answers = out.read_text().split()
    return float(took), answers


def main() -> None:
    (before, answers), (two, _), (uneven, _), (after, _) = launched(1), launched(2), launched(2, slow=True), launched(1)
    one = (before + after) / 2
    write(
        "Scaling",
        f"""
The demo model, all {answers} prompts of {RELATIONSHIPS} relationships with their own room, batches of {BATCH}, one thread a process;
loading aside. One process: the mean of {before:.1f} s before the others and {after:.1f} s after them.

| | seconds | times one process | of the ideal |
|---|---:|---:|---:|
| one process | {one:.1f} | 1 | |
| two processes | {two:.1f} | {one / two:.2f} | {100 * one / two / 2:.0f}% |
| two processes, one at half speed | {uneven:.1f} | {one / uneven:.2f} | {100 * one / uneven / 1.5:.0f}% |
""",
        ["torch", "transformers", "accelerate"],
    )


if __name__ == "__main__":
    if "work" in sys.argv:
        work(Path(sys.argv[2]), sys.argv[3] == "slow")
    else:
        main()
