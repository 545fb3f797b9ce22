"""`h2htalk judge`: a model marks the Itinerary answers that the paper blends a judge into, or is checked for drift."""

__all__ = ["judge"]

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from h2htalk_datasets.errors import H2HTalkError

if TYPE_CHECKING:
    from h2htalk_metric.judge.marking import Judge
    from h2htalk_metric.judge.run_judgements import Panel

Price = Annotated[float | None, typer.Option(min=0, help="Per million tokens, in your currency.")]


def judge(
    run_folder: Annotated[Path | None, typer.Argument(help="The run folder; not with --check.")] = None,
    *,
    model: Annotated[str, typer.Option("--judge", help="The judging model; several joined by commas are a panel.")],
    base_url: Annotated[
        str | None, typer.Option(help="An OpenAI-compatible server; OpenAI's own if not given.")
    ] = None,
    evidence: Annotated[int, typer.Option(min=0, help="Explanations drawn before marks; 0 marks at once.")] = 0,
    alpha: Annotated[float, typer.Option(min=0, max=1, help="Weight of S in J (Eq. 3).")] = 0.6,
    tau: Annotated[float, typer.Option(min=0, max=5, help="Below this J an item is for people (Eq. 4).")] = 3.5,
    seed: Annotated[int, typer.Option(help="Of the judge's draws.")] = 0,
    concurrency: Annotated[int, typer.Option(min=1, help="Calls in flight.")] = 8,
    timeout: Annotated[float, typer.Option(min=1, help="Seconds that one try may take.")] = 120.0,
    price_in: Price = None,
    price_out: Price = None,
    max_cost: Annotated[
        float | None, typer.Option(min=0, help="Stop before this is passed, by estimate; goes on later.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what judging a run would take; ask nothing.")] = False,
    check: Annotated[bool, typer.Option("--check", help="Mark thirty fixed answers: has this judge moved?")] = False,
) -> None:
    """Let a model mark the answers of the three judged tasks; the same command goes on where it stopped."""
    from h2htalk_datasets.generation.chat_client import public_url
    from h2htalk_metric.judge.cache import VerdictCache
    from h2htalk_metric.judge.cost import Purse
    from h2htalk_metric.judge.marking import Judge, server_of
    from h2htalk_metric.judge.run_judgements import Panel, judge_names
    from h2htalk_metric.judge.structured import StructuredChat

    names = judge_names(model)
    if not names or check == (run_folder is not None):
        raise H2HTalkError("name a judge, and either a run folder or --check")
    if check and dry_run:
        raise H2HTalkError("--check always asks, so it takes no --dry-run: thirty answers, twice each, for each judge")
    purse = Purse(price_in, price_out, max_cost)
    cache = None if check else VerdictCache()  # what is asked whether it has moved must be asked anew
    url = public_url(base_url) if dry_run else base_url  # a server that is named needs no key, and none is asked
    judges = [Judge(StructuredChat(name, url, timeout=timeout), evidence, seed, cache, purse) for name in names]
    panel = Panel(names, evidence, seed, alpha, tau, server_of(base_url))
    if run_folder is None:
        _check(judges, concurrency)
    elif dry_run:
        _dry_run(run_folder, judges, panel, prices=price_in is not None)
    else:
        _judge(run_folder, judges, panel, concurrency)


def _dry_run(folder: Path, judges: "list[Judge]", panel: "Panel", *, prices: bool) -> None:
    from h2htalk_metric.judge.cost import Spent
    from h2htalk_metric.judge.items import items_of
    from h2htalk_metric.judge.run_judgements import open_jobs

    items = items_of(folder)
    jobs = open_jobs(folder, items, judges, panel)
    about = Spent()
    for one in judges:
        about.add(one.estimate(item for judge, item in jobs if judge is one))
    print(f"{len(items)} answers, {len(judges)} judges: {len(jobs)} judgements to make, {about.calls} calls")
    print(f"about {about.prompt_tokens} prompt tokens and {about.new_tokens} new ones")
    print("estimated as a token for four bytes of a prompt, twelve for a mark and sixty for a reason (evidence: 300)")
    if prices:
        print(f"about {judges[0].purse.cost(about):.4f} at these prices, corrections and retries aside")


def _judge(folder: Path, judges: "list[Judge]", panel: "Panel", concurrency: int) -> None:
    from h2htalk_datasets.generation.run_folder import RunFolder
    from h2htalk_metric.judge.run_judgements import judge_run
    from h2htalk_metric.probes.answers import is_probe_run

    left = judge_run(folder, judges, panel, in_flight=concurrency)
    purse = judges[0].purse
    _print_spent(judges)
    if purse.empty:
        print(f"stopped, the next call might pass --max-cost; {left} judgements are left, the same command goes on")
    elif left:
        print(f"{left} judgements are unscored, each with its reason in judgements.jsonl; the same command asks again")
    if is_probe_run(RunFolder(folder).manifest()):
        print("these marks show in the result of the run that this probe belongs to; run: h2htalk sap, or follow")
        return
    if not (folder / "scores.parquet").exists():
        print(f"J needs S as well; run: h2htalk score {folder}")
        return
    from h2htalk_metric.reports.write import show
    from h2htalk_metric.runs.scoring import RunScores

    show(folder, RunScores.read(folder))


def _check(judges: "list[Judge]", concurrency: int) -> None:
    from h2htalk_metric.judge.drift import check

    for one in judges:
        print(check(one, in_flight=concurrency))
    _print_spent(judges)


def _print_spent(judges: "list[Judge]") -> None:
    purse = judges[0].purse
    spent = purse.spent
    cost = purse.cost(spent)
    print(
        f"asked: {spent.calls} calls, {spent.prompt_tokens} prompt tokens, {spent.new_tokens} new ones"
        + (f", cost {cost:.4f}" if cost else "")
    )
