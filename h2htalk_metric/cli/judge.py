"""`h2htalk judge`: let a model judge the three Itinerary tasks or others, or check a judge for drift."""

__all__ = ["judge_command"]

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from h2htalk_datasets.errors import H2HTalkError, did_you_mean
from h2htalk_datasets.languages import LANGUAGES, language_of
from h2htalk_datasets.options import with_options
from h2htalk_datasets.tasks import select_tasks
from h2htalk_metric.cli.options import JudgeOptions, PriceOptions
from h2htalk_metric.cli.spending import print_estimate, print_stopped, print_usage

if TYPE_CHECKING:
    from h2htalk_metric.judge.judge import Judge
    from h2htalk_metric.judge.panel import Panel
    from h2htalk_metric.judge.scale import Scale


@with_options(judging=JudgeOptions, prices=PriceOptions)
def judge_command(
    judging: JudgeOptions,
    prices: PriceOptions,
    run_folder: Annotated[Path | None, typer.Argument(metavar="RUN", help="The run folder; not with --check.")] = None,
    alpha: Annotated[float, typer.Option(min=0, max=1, help="Weight of S in J (Eq. 3), 0 to 1.")] = 0.6,
    tau: Annotated[
        float, typer.Option(min=0, max=5, help="An answer with a lower J is for people (Eq. 4), 0 to 5.")
    ] = 3.5,
    tau_share: Annotated[
        float | None,
        typer.Option(min=0.001, max=1, help="Flag this share of the answers, those with the lowest J, not J < tau."),
    ] = None,
    scale: Annotated[
        str, typer.Option(help="How S enters J: 'paper' (5 S), or 'ceiling' (relative to an independent writer).")
    ] = "paper",
    tasks: Annotated[
        str | None,
        typer.Option(help="Config names separated by commas, or 'all'. Default: the three that enter J (Eq. 3)."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the judge.")] = 0,
    language: Annotated[str, typer.Option(help="Language of the fixed answers of --check: 'en' or 'zh'.")] = "en",
    check: Annotated[
        bool,
        typer.Option(
            "--check",
            help="Judge thirty fixed answers (with --tasks all 54): has this judge changed?",
        ),
    ] = False,
) -> None:
    """Let a model judge the answers of the judged tasks; the same command continues where it stopped."""
    from h2htalk_metric.judge.judge_items import JUDGED_TASKS

    panel = judging.panel(alpha=alpha, tau=tau, tau_share=tau_share, seed=seed)
    if panel is None or check == (run_folder is not None):
        raise H2HTalkError("name a judge with --judge, and either a run folder or --check")
    if check and prices.dry_run:
        raise H2HTalkError("--check always sends requests (each fixed answer twice, per judge); omit --dry-run")
    names = JUDGED_TASKS if tasks is None else tuple(task.name for task in select_tasks(tasks))
    panel = replace(panel, scale=_scale(scale, run_folder))
    judges = judging.judges(panel, prices=prices, cached=not check)
    if run_folder is None:
        _check_drift(judges, names, judging.max_connections, language_of(language).code)
    elif prices.dry_run:
        _print_estimate(run_folder, names, judges, panel, prices)
    else:
        _judge(run_folder, names, judges, panel, judging.max_connections)


def _scale(name: str, run_folder: Path | None) -> "Scale":
    from h2htalk_metric.judge.ceilings import ceiling_scale
    from h2htalk_metric.judge.scale import PAPER, SCALES
    from h2htalk_metric.runs.run import Run

    if name not in SCALES:
        raise H2HTalkError(f"no scale {name!r}.{did_you_mean(name, SCALES)} There are: {', '.join(SCALES)}")
    return PAPER if name == "paper" or run_folder is None else ceiling_scale(Run(run_folder))


def _print_estimate(
    run_folder: Path, tasks: tuple[str, ...], judges: "list[Judge]", panel: "Panel", prices: PriceOptions
) -> None:
    from h2htalk_metric.judge.flags import certain_flags
    from h2htalk_metric.judge.judge_items import JUDGED_TASKS, judge_items
    from h2htalk_metric.judge.judge_run import open_jobs, resumed
    from h2htalk_metric.judge.panel_scores import composites_of
    from h2htalk_metric.runs.run import Run

    run = Run(run_folder)
    items = judge_items(run, tasks)
    if any(item.rubric.name in JUDGED_TASKS for item in items) and (run.path / "scores.parquet").exists():
        for code, part in run.by_language.items():
            about = f"{LANGUAGES[code].name}: " if len(run.languages) > 1 else ""
            print(about + certain_flags(composites_of(part), panel))
    jobs = open_jobs(run.path, items, judges, resumed(run.path, judges, panel))
    print_estimate(len(items), judges, jobs, prices)


def _judge(
    run_folder: Path, tasks: tuple[str, ...], judges: "list[Judge]", panel: "Panel", max_connections: int
) -> None:
    from h2htalk_metric.judge.flags import flag_summary
    from h2htalk_metric.judge.judge_items import JUDGED_TASKS, judge_items
    from h2htalk_metric.judge.judge_run import judge_run
    from h2htalk_metric.judge.panel import Panel
    from h2htalk_metric.judge.panel_scores import panel_scores
    from h2htalk_metric.reports.report import print_report, write_report
    from h2htalk_metric.runs.run import Run

    run = Run(run_folder)
    items = judge_items(run, tasks)
    num_open = judge_run(run, judges, panel, max_connections=max_connections, items=items)
    is_scored = (run.path / "scores.parquet").exists()
    if is_scored and any(item.rubric.name in JUDGED_TASKS for item in items):
        for code, part in run.by_language.items():
            about = f"{LANGUAGES[code].name}: " if len(run.languages) > 1 else ""
            print(about + flag_summary(panel_scores(part), Panel.read(run.path) or panel))
    print_usage(judges)
    print_stopped(judges, num_open)
    if run.is_probe_run:
        print("these judgements are part of a probe; to see its result, run: h2htalk probe safety or instructions")
    elif not is_scored:
        print(f"J also needs S; run: h2htalk score {run_folder}")
    else:
        print_report(run)
        print(f"report: {' and '.join(map(str, write_report(run)))}")


def _check_drift(judges: "list[Judge]", tasks: tuple[str, ...], max_connections: int, language: str) -> None:
    from h2htalk_metric.judge.drift import check_drift

    for judge in judges:
        print(check_drift(judge, max_connections=max_connections, tasks=tasks, language=language))
    print_usage(judges)
