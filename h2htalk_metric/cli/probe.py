"""`h2htalk probe safety|instructions|conversation RUN`: measure a run's model on what S does not show."""

__all__ = ["conversation", "instructions", "probe_app", "safety"]

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.options import with_options
from h2htalk_metric.cli.options import JudgeOptions, ModelOptions, RunArgument

if TYPE_CHECKING:
    from h2htalk_datasets.generation.config import Settings
    from h2htalk_metric.judge.panel import Panel
    from h2htalk_metric.runs.run import Run

probe_app = typer.Typer(help="Measure a run's model on what S does not show.", no_args_is_help=True)

LimitOption = Annotated[
    int | None, typer.Option("--limit", min=1, help="Records, evenly spaced over the set. Default: all.")
]


@probe_app.command()
@with_options(judging=JudgeOptions, loading=ModelOptions)
def safety(
    run_folder: RunArgument,
    judging: JudgeOptions,
    loading: ModelOptions,
    variants: Annotated[
        str | None,
        typer.Option(help="'all', or some of with, without, no_PRINCIPLE. Default: those of the result, at first all."),
    ] = None,
    limit: LimitOption = None,
    embedder: Annotated[
        str | None, typer.Option(help="Embedder for SS. Default: that of the result, at first BAAI/bge-m3.")
    ] = None,
) -> None:
    """Answer SafetyHighRisk with the persona, without it, and without each principle (Table 3).

    After the first result, variants, embedder and limit stay as they are unless other ones are named (for another limit
    move the folder away). Without --judge and --variants nothing is sent: the table is made again.
    """
    from h2htalk_metric.metrics.similarity import DEFAULT_EMBEDDER, load_embedder
    from h2htalk_metric.probes.model import answer_probes
    from h2htalk_metric.probes.results import probe_folder, read_result
    from h2htalk_metric.probes.safety import PROBE, VARIANTS, measure_safety, select_variants
    from h2htalk_metric.runs.run import Run

    run, panel = Run(run_folder), judging.panel()
    earlier = read_result(run, "safety")
    folders = {variant: probe_folder(run, "safety") / variant for variant in VARIANTS}
    complete = [variant for variant, folder in folders.items() if Run(folder).complete]
    selected = select_variants(variants or (",".join(complete) if complete and earlier else "all"))
    _check_same_judges(panel, {variant: folders[variant] for variant in complete if variant not in selected})
    model = load_embedder(embedder or (earlier["signature"]["embedder"] if earlier else DEFAULT_EMBEDDER))
    if limit is None and complete:
        limit = Run(folders[complete[0]]).manifest["dataset"]["limit"]
    asked = {folders[variant]: _settings(run, loading, PROBE, VARIANTS[variant], limit) for variant in selected}
    answer_probes(run, asked)
    _judge(list(asked), panel, judging)
    runs = {variant: folder for variant, folder in folders.items() if Run(folder).complete}
    _write_and_print(run, "safety", measure_safety(runs, model))


@probe_app.command()
@with_options(judging=JudgeOptions, loading=ModelOptions)
def instructions(
    run_folder: RunArgument, judging: JudgeOptions, loading: ModelOptions, limit: LimitOption = None
) -> None:
    """Answer InstructionFollowing, and measure what it costs that a need is not said (Fig. 7)."""
    from h2htalk_metric.probes.instructions import PROBE, measure_instructions
    from h2htalk_metric.probes.model import answer_probes, sap_option
    from h2htalk_metric.probes.results import probe_folder
    from h2htalk_metric.runs.run import Run

    run, panel = Run(run_folder), judging.panel()
    folder = probe_folder(run, "instructions")
    answer_probes(run, {folder: _settings(run, loading, PROBE, sap_option(run), limit)})
    _judge([folder], panel, judging)
    _write_and_print(run, "instructions", measure_instructions(folder))


@probe_app.command()
@with_options(judging=JudgeOptions, loading=ModelOptions)
def conversation(
    run_folder: RunArgument,
    judging: JudgeOptions,
    loading: ModelOptions,
    user: Annotated[str, typer.Option(help="The model that plays the user, as for --model.")],
    user_url: Annotated[str | None, typer.Option(help="Base URL of its server. Default: load it here.")] = None,
    turns: Annotated[int, typer.Option(min=4, max=8, help="Most messages of the user.")] = 8,
    limit: Annotated[int | None, typer.Option(min=1, help="Conversations, from the first. Default: all.")] = None,
) -> None:
    """Let a second model play a user whose need changes, and measure whether the run's model notices."""
    from h2htalk_datasets.generation.config import Settings
    from h2htalk_datasets.generation.distributed.state import DistributedState
    from h2htalk_datasets.generation.run import make_engine
    from h2htalk_metric.probes.conversation import PROBE, conversation_items, measure_conversations, run_conversations
    from h2htalk_metric.probes.model import check_same_model, sap_option
    from h2htalk_metric.probes.results import probe_folder
    from h2htalk_metric.runs.run import Run

    run, panel = Run(run_folder), judging.panel()
    folder = probe_folder(run, "conversation")
    settings, state = _settings(run, loading, PROBE, sap_option(run), None), DistributedState()
    companion = make_engine(settings, state)
    check_same_model(run.manifest["model"], companion.identity())
    player = make_engine(Settings(model=user, base_url=user_url), state)
    run_conversations(folder, companion, player, settings, turns=turns, limit=limit)
    _judge([folder], panel, judging, conversation_items(folder))
    _write_and_print(run, "conversation", measure_conversations(folder))


def _settings(run: "Run", loading: ModelOptions, probe: str, sap: str, limit: int | None) -> "Settings":
    from h2htalk_metric.probes.model import probe_settings

    return probe_settings(
        run,
        probe=probe,
        sap=sap,
        limit=limit,
        base_url=loading.model_url,
        trust_remote_code=loading.trust_remote_code,
        devices_per_replica=loading.devices_per_replica,
    )


def _check_same_judges(panel: "Panel | None", others: Mapping[str, Path]) -> None:
    """Check, before anything is sent, that the variants that are not judged now were judged in the same way."""
    from h2htalk_metric.judge.panel import Panel

    panels = {variant: Panel.read(folder) for variant, folder in others.items()}
    differing = [variant for variant, other in panels.items() if panel and other and not other.same_judging(panel)]
    if differing:
        raise H2HTalkError(
            f"{', '.join(differing)} were judged by another panel or with other settings, so their scores cannot be "
            "compared; name them in --variants too, or move their folders away"
        )


def _judge(
    folders: Sequence[Path], panel: "Panel | None", judging: JudgeOptions, items: Sequence[Any] | None = None
) -> None:
    if panel is None:
        return
    from h2htalk_metric.judge.judge_run import judge_run

    judges = judging.judges(panel)
    for folder in folders:
        num_open = judge_run(folder, judges, panel, max_connections=judging.max_connections, items=items)
        if num_open:
            print(f"{folder}: {num_open} judgements are unscored; run the same command again to retry them")


def _write_and_print(run: "Run", probe: str, result: Mapping[str, Any]) -> None:
    """Write probes/NAME.json and NAME.md, show the section, and add it to the report of a scored run."""
    from h2htalk_metric.probes.results import write_result
    from h2htalk_metric.reports.report import probe_section, write_probe_report
    from h2htalk_metric.reports.terminal import print_sections

    files = [write_result(run, probe, result), *write_probe_report(run, probe, result)]
    print_sections([probe_section(probe, result)], width=160)
    print(f"written: {', '.join(map(str, files))}")
