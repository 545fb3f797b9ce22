"""Ranks of generation that start fast: forked from a server that has imported all libraries already."""

import faulthandler
import multiprocessing
import os
import sys
from collections.abc import Sequence
from multiprocessing.process import BaseProcess
from pathlib import Path

from h2htalk_datasets.generation.__main__ import app
from h2htalk_datasets.generation.cli import run_app

_SERVER = multiprocessing.get_context("forkserver")
_SERVER.set_forkserver_preload(
    [
        "torch.distributed",
        "accelerate",
        "transformers.models.llama.modeling_llama",
        "transformers.tokenization_utils_tokenizers",
        "h2htalk_datasets.generation.__main__",
        "h2htalk_datasets.generation.run",
        "h2htalk_datasets.generation.engines.models",
        "h2htalk_datasets.generation.engines.transformers",
    ]
)


def start_ranks(count: int, port: str, arguments: Sequence[str], log: Path) -> list[BaseProcess]:
    """Start the ranks of one job as a launcher would, each by `python -m h2htalk_datasets.generation ARGUMENTS`."""
    ranks = [_SERVER.Process(target=_run_rank, args=(rank, count, port, arguments, log)) for rank in range(count)]
    for rank in ranks:
        rank.start()
    return ranks


def _run_rank(rank: int, count: int, port: str, arguments: Sequence[str], log: Path) -> None:
    with log.open("ab") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    faulthandler.dump_traceback_later(240, file=2)  # shows in the log where a rank hangs
    if count > 1:
        os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(count)}
        os.environ |= {"LOCAL_WORLD_SIZE": str(count), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    sys.argv = ["generation", *arguments]
    run_app(app)
