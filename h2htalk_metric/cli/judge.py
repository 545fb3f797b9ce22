"""`h2htalk judge`: let a model judge the three Itinerary tasks, or check a judge for drift."""

__all__ = ["judge_command"]

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.options import with_options
from h2htalk_metric.cli.options import JudgeOptions, PriceOptions

if TYPE_CHECKING:
    from h2htalk_metric.judge.judge import Judge
    from h2htalk_metric.judge.panel import Panel


@with_options(judging=JudgeOptions, prices=PriceOptions)
def judge_command(
    judging: JudgeOptions,
    prices: PriceOptions,
    run_folder: Annotated[Path | None, typer.Argument(metavar="RUN", help="The run folder; not with --check.")] = None,
    alpha: Annotated[float, typer.Option(min=0, max=1, help="Weight of S in J (Eq. 3), 0 to 1.")] = 0.6,
    tau: Annotated[
        float, typer.Option(min=0, max=5, help="An answer with a lower J is for people (Eq. 4), 0 to 5.")
    ] = 3.5,
    seed: Annotated[int, typer.Option(help="Seed of the judge.")] = 0,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the expected calls, tokens and cost only.")] = False,
    check: Annotated[bool, typer.Option("--check", help="Judge thirty fixed answers: has this judge changed?")] = False,
) -> None:
    """Let a model judge the answers of the three judged tasks; the same command continues where it stopped."""
    from dataclasses import replace

    from h2htalk_datasets.generation.chat_client import public_url

    panel = judging.panel(alpha=alpha, tau=tau, seed=seed)
    if panel is None or check == (run_folder is not None):
        raise H2HTalkError("name a judge with --judge, and either a run folder or --check")
    if check and dry_run:
        raise H2HTalkError("--check always sends requests (thirty answers, twice each, per judge); omit --dry-run")
    if dry_run:
        judging = replace(judging, base_url=public_url(judging.base_url))  # no request is sent, so no key is needed
    judges = judging.judges(panel, prices=prices, cached=not check)
    if run_folder is None:
        _check_drift(judges, judging.max_connections)
    elif dry_run:
        _print_estimate(run_folder, judges, panel, with_cost=prices.price_in is not None)
    else:
        _judge(run_folder, judges, panel, judging.max_connections)


def _print_estimate(run_folder: Path, judges: "list[Judge]", panel: "Panel", *, with_cost: bool) -> None:
    from h2htalk_metric.judge.budget import Usage
    from h2htalk_metric.judge.judge_items import judge_items
    from h2htalk_metric.judge.judge_run import open_jobs

    items = judge_items(run_folder)
    jobs = open_jobs(run_folder, items, judges, panel)
    usage = Usage()
    for judge in judges:
        usage.add(judge.estimate(item for of_judge, item in jobs if of_judge is judge))
    print(f"{len(items)} answers, {len(judges)} judges: {len(jobs)} judgements to make, {usage.calls} calls")
    print(f"about {usage.prompt_tokens} prompt tokens and {usage.new_tokens} new tokens")
    print("estimated: 4 bytes per prompt token, 12 tokens per mark, 60 per explanation (300 with --explanations)")
    if with_cost:
        print(f"about {judges[0].budget.cost(usage):.4f} at these prices, without corrections and retries")


def _judge(run_folder: Path, judges: "list[Judge]", panel: "Panel", max_connections: int) -> None:
    from h2htalk_metric.judge.judge_run import judge_run
    from h2htalk_metric.reports.report import print_report, write_report
    from h2htalk_metric.runs.run import Run

    num_open = judge_run(run_folder, judges, panel, max_connections=max_connections)
    _print_usage(judges)
    if judges[0].budget.exhausted:
        print(
            f"stopped: the next call could exceed --max-cost; {num_open} judgements are open, run it again to continue"
        )
    elif num_open:
        print(f"{num_open} judgements are unscored, with reasons in judgements.jsonl; run it again to retry them")
    run = Run(run_folder)
    if run.is_probe_run:
        print("these judgements are part of a probe; to see its result, run: h2htalk probe safety or instructions")
    elif not (run.path / "scores.parquet").exists():
        print(f"J also needs S; run: h2htalk score {run_folder}")
    else:
        print_report(run)
        print(f"report: {' and '.join(map(str, write_report(run)))}")


def _check_drift(judges: "list[Judge]", max_connections: int) -> None:
    from h2htalk_metric.judge.drift import check_drift

    for judge in judges:
        print(check_drift(judge, max_connections=max_connections))
    _print_usage(judges)


def _print_usage(judges: "list[Judge]") -> None:
    budget = judges[0].budget
    usage, cost = budget.usage, budget.cost(budget.usage)
    tokens = f"{usage.calls} calls, {usage.prompt_tokens} prompt tokens, {usage.new_tokens} new tokens"
    print(f"usage: {tokens}" + (f", cost {cost:.4f}" if cost else ""))
