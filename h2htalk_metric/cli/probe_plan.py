"""The dry run of the probes: what a command would send, and what judging it would cost."""

__all__ = ["print_answers", "print_conversations", "print_judging", "print_plan"]

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from h2htalk_metric.cli.options import PriceOptions
from h2htalk_metric.cli.spending import print_estimate

if TYPE_CHECKING:
    from h2htalk_datasets.generation.config import Settings
    from h2htalk_metric.judge.judge import Judge
    from h2htalk_metric.judge.judge_items import JudgeItem
    from h2htalk_metric.judge.panel import Panel


def print_plan(
    settings_of: "Mapping[Path, Settings]",
    folders: Sequence[Path],
    judges: "Sequence[Judge]",
    panel: "Panel | None",
    prices: PriceOptions,
    *,
    rollout: bool = False,
) -> None:
    """Print what the same command without --dry-run would send."""
    from h2htalk_datasets.generation.run import records_of_settings
    from h2htalk_metric.judge.judge_items import judge_items, probe_item
    from h2htalk_metric.runs.run import Run

    print_answers(settings_of, rollout=rollout)
    items = {
        folder: judge_items(folder)
        if Run(folder).complete
        # An answer is expected to be as long as the reference.
        else [probe_item(record, record["reference"]) for record in records_of_settings(settings_of[folder])]
        for folder in folders
    }
    print_judging(items, judges, panel, prices)


def print_answers(settings_of: "Mapping[Path, Settings]", *, rollout: bool = False) -> None:
    """Print how many answers the run's model would generate, and their tokens."""
    from h2htalk_metric.probes.model import check_answered_alike, open_prompts

    check_answered_alike(settings_of)
    prompts = [
        prompt for folder in settings_of for prompt in open_prompts(folder, settings_of[folder], rollout=rollout)
    ]
    new_tokens = sum(prompt.max_new_tokens for prompt in prompts)
    print(
        f"{len(prompts)} answers to generate: about {_prompt_tokens(prompts)} prompt tokens and at most {new_tokens} "
        "new tokens of the run's model, which are not in the cost"
    )


def print_conversations(
    items: "Sequence[JudgeItem]",
    turns: int,
    judges: "Sequence[Judge]",
    panel: "Panel | None",
    prices: PriceOptions,
    folder: Path,
) -> None:
    """Print what a conversation probe without --dry-run would send."""
    print(
        f"at most {len(items) * turns} answers to generate and {len(items) * (turns - 1)} messages of the user, which "
        "are not in the cost"
    )
    print_judging({folder: items}, judges, panel, prices)


def print_judging(
    items: "Mapping[Path, Sequence[JudgeItem]]", judges: "Sequence[Judge]", panel: "Panel | None", prices: PriceOptions
) -> None:
    """Print how many judgements are open in each folder, their tokens and cost."""
    from h2htalk_metric.judge.judge_run import open_jobs, resumed

    if panel is None:
        print("no judge is named, so nothing would be judged")
        return
    jobs = [
        job
        for folder, of_folder in items.items()
        for job in open_jobs(folder, of_folder, judges, resumed(folder, judges, panel))
    ]
    print_estimate(sum(map(len, items.values())), judges, jobs, prices)


def _prompt_tokens(prompts: Sequence[Any]) -> int:
    from h2htalk_metric.judge.budget import estimate_tokens

    return sum(estimate_tokens(prompt.messages) for prompt in prompts)
