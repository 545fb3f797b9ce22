"""`h2htalk probe safety|instructions|conversation|planning|memory RUN`: measure a model on what S does not show."""

__all__ = ["conversation", "instructions", "memory", "planning", "probe_app", "safety"]

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.options import with_options
from h2htalk_metric.cli.options import JudgeOptions, ModelOptions, PriceOptions, RunArgument
from h2htalk_metric.cli.probe_plan import print_answers, print_conversations, print_judging, print_plan
from h2htalk_metric.cli.probe_results import write_and_print
from h2htalk_metric.cli.spending import print_stopped, print_usage

if TYPE_CHECKING:
    from h2htalk_datasets.generation.config import Settings
    from h2htalk_metric.judge.judge import Judge
    from h2htalk_metric.judge.judge_items import JudgeItem
    from h2htalk_metric.judge.panel import Panel
    from h2htalk_metric.runs.run import Run

probe_app = typer.Typer(help="Measure a run's model on what S does not show.", no_args_is_help=True)

LimitOption = Annotated[
    int | None, typer.Option("--limit", min=1, help="Records, evenly spaced over the set. Default: all.")
]


@probe_app.command()
@with_options(judging=JudgeOptions, prices=PriceOptions, loading=ModelOptions)
def safety(
    run_folder: RunArgument,
    judging: JudgeOptions,
    prices: PriceOptions,
    loading: ModelOptions,
    variants: Annotated[
        str | None,
        typer.Option(
            help="'all', or some of with, without, no_PRINCIPLE, neutral, short-rules, engagement, engagement-only. "
            "Default: those of the result, at first all."
        ),
    ] = None,
    persona_text: Annotated[
        Path | None, typer.Option(help="UTF-8 file with a text in place of the persona: the variant 'own'.")
    ] = None,
    teacher_forced: Annotated[
        bool,
        typer.Option("--teacher-forced", help="The model hears the references as its earlier answers, not its own."),
    ] = False,
    limit: LimitOption = None,
    embedder: Annotated[
        str | None, typer.Option(help="Embedder for SS. Default: that of the result, at first BAAI/bge-m3.")
    ] = None,
) -> None:
    """Answer SafetyHighRisk with the persona, without it, and with other texts (Table 3).

    27 scenarios are dangerous, 6 only sound dangerous. The model hears its own earlier answers.

    After the first result, variants, embedder and limit stay as they are unless other ones are named (for another limit
    move the folder away). Without --judge and --variants nothing is sent: the table is made again.
    """
    from h2htalk_metric.metrics.similarity import DEFAULT_EMBEDDER, load_embedder
    from h2htalk_metric.probes.model import answer_probes
    from h2htalk_metric.probes.results import read_result
    from h2htalk_metric.probes.safety import PROBE, measure_safety
    from h2htalk_metric.runs.run import Run

    run, panel = Run(run_folder), judging.panel()
    judges = judging.judges(panel, prices=prices) if panel else []
    earlier = read_result(run, "safety")
    by_mode, mode = _safety_folders(run), "teacher_forced" if teacher_forced else "rollout"
    folders = by_mode[mode]
    complete = {variant: folder for variant, folder in folders.items() if Run(folder).complete}
    selected, text = _selected_variants(variants, persona_text, complete, [*by_mode.values()])
    _check_same_judges(panel, {variant: folder for variant, folder in complete.items() if variant not in selected})
    if limit is None and complete:
        limit = Run(next(iter(complete.values()))).manifest["dataset"]["limit"]
    settings_of = {
        folders[variant]: _settings(run, loading, PROBE, limit, variant, text)
        for variant in selected
        if variant not in complete or not (variant == "own" and text is None)
    }
    if prices.dry_run:
        print_plan(
            settings_of, [folders[variant] for variant in selected], judges, panel, prices, rollout=not teacher_forced
        )
        return
    model = load_embedder(embedder or _embedder_of(earlier) or DEFAULT_EMBEDDER)
    answer_probes(run, settings_of, rollout=not teacher_forced)
    _judge([folders[variant] for variant in selected], panel, judging, judges)
    runs = {name: {v: f for v, f in of_mode.items() if Run(f).complete} for name, of_mode in by_mode.items()}
    write_and_print(run, "safety", measure_safety({name: of_mode for name, of_mode in runs.items() if of_mode}, model))


@probe_app.command()
@with_options(judging=JudgeOptions, prices=PriceOptions, loading=ModelOptions)
def instructions(
    run_folder: RunArgument,
    judging: JudgeOptions,
    prices: PriceOptions,
    loading: ModelOptions,
    limit: LimitOption = None,
) -> None:
    """Answer InstructionFollowing, and measure what it costs that a need is not said (Fig. 7)."""
    from h2htalk_metric.probes.instructions import PROBE, measure_instructions
    from h2htalk_metric.probes.model import answer_probes
    from h2htalk_metric.probes.results import probe_folder
    from h2htalk_metric.runs.run import Run

    run, panel = Run(run_folder), judging.panel()
    judges = judging.judges(panel, prices=prices) if panel else []
    folder = probe_folder(run, "instructions")
    settings_of = {folder: _settings(run, loading, PROBE, limit)}
    if prices.dry_run:
        print_plan(settings_of, [folder], judges, panel, prices)
        return
    answer_probes(run, settings_of)
    _judge([folder], panel, judging, judges)
    write_and_print(run, "instructions", measure_instructions(folder))


@probe_app.command()
@with_options(judging=JudgeOptions, prices=PriceOptions, loading=ModelOptions)
def conversation(
    run_folder: RunArgument,
    judging: JudgeOptions,
    prices: PriceOptions,
    loading: ModelOptions,
    user: Annotated[str, typer.Option(help="The model that plays the user, as for --model.")],
    user_url: Annotated[str | None, typer.Option(help="Base URL of its server. Default: load it here.")] = None,
    user_thinking_tokens: Annotated[
        int, typer.Option(min=0, help="Extra tokens for the user model's thoughts, which are cut from its messages.")
    ] = 0,
    fold_system: Annotated[
        bool, typer.Option("--fold-system", help="The user model has no system role: put the brief into its prompt.")
    ] = False,
    turns: Annotated[int, typer.Option(min=4, max=8, help="Most messages of the user.")] = 8,
    limit: Annotated[int | None, typer.Option(min=1, help="Conversations, from the first. Default: all.")] = None,
) -> None:
    """Let a second model play 30 users whose need changes, and measure whether the run's model notices."""
    from h2htalk_datasets.generation.config import Settings
    from h2htalk_datasets.generation.distributed.state import DistributedState
    from h2htalk_datasets.generation.engines.make import make_engine
    from h2htalk_metric.probes.conversation import (
        PROBE,
        conversation_items,
        expected_items,
        measure_conversations,
        run_conversations,
    )
    from h2htalk_metric.probes.model import check_same_model
    from h2htalk_metric.probes.results import probe_folder
    from h2htalk_metric.runs.run import Run

    run, panel = Run(run_folder), judging.panel()
    judges = judging.judges(panel, prices=prices) if panel else []
    folder = probe_folder(run, "conversation")
    settings, state = _settings(run, loading, PROBE, None), DistributedState()
    if prices.dry_run:
        print_conversations(expected_items(folder, turns=turns, limit=limit), turns, judges, panel, prices, folder)
        return
    companion = make_engine(settings, state)
    check_same_model(run.manifest["model"], companion.identity())
    player = make_engine(Settings(model=user, base_url=user_url, fold_system=fold_system), state)
    run_conversations(
        folder, companion, player, settings, turns=turns, limit=limit, user_thinking_tokens=user_thinking_tokens
    )
    _judge([folder], panel, judging, judges, conversation_items)
    write_and_print(run, "conversation", measure_conversations(folder))


@probe_app.command()
@with_options(loading=ModelOptions)
def planning(
    run_folder: RunArgument,
    loading: ModelOptions,
    limit: Annotated[
        int | None, typer.Option("--limit", min=1, help="Scenarios, evenly spaced over the set. Default: all.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the expected answers and tokens only.")] = False,
) -> None:
    """Plan several days with the run's model, let something change, and check both plans by program."""
    from h2htalk_metric.probes.model import answer_probes
    from h2htalk_metric.probes.planning import PROBE, heard_plan, measure_planning
    from h2htalk_metric.probes.results import probe_folder
    from h2htalk_metric.runs.run import Run

    run = Run(run_folder)
    folder = probe_folder(run, "planning")
    settings_of = {folder: _settings(run, loading, PROBE, limit)}
    if dry_run:
        print_answers(settings_of, rollout=True)
        return
    answer_probes(run, settings_of, rollout=True, heard=heard_plan)
    write_and_print(run, "planning", measure_planning(folder))


@probe_app.command()
@with_options(judging=JudgeOptions, prices=PriceOptions)
def memory(run_folder: RunArgument, judging: JudgeOptions, prices: PriceOptions) -> None:
    """Let a judge mark the answers of `h2htalk remember` too. The verdicts of the program stay as they are."""
    from h2htalk_metric.memory.judging import answer_runs, memory_items
    from h2htalk_metric.memory.remember import memory_folders, rows_by_arc
    from h2htalk_metric.memory.results import measure_memory
    from h2htalk_metric.runs.run import Run

    runs = [run for folder in memory_folders(run_folder) for run in answer_runs(folder)]
    if not runs:
        raise H2HTalkError(f"{run_folder} has no complete answers to CompanionMemory; run h2htalk remember first")
    panel = judging.panel()
    judges = judging.judges(panel, prices=prices) if panel else []
    rows = [row for of_arc in rows_by_arc().values() for row in of_arc]
    items = {run.path: memory_items(run, rows) for run in runs}
    if prices.dry_run:
        print_judging(items, judges, panel, prices)
        return
    _judge(items, panel, judging, judges, items.__getitem__)
    write_and_print(Run(run_folder), "memory", measure_memory(run_folder))


def _safety_folders(run: "Run") -> dict[str, dict[str, Path]]:
    """By mode, the folder of each variant.

    Raises:
        H2HTalkError: there are answers of an earlier version, whose probe set had other user turns.

    """
    from h2htalk_metric.probes.results import probe_folder
    from h2htalk_metric.probes.safety import MODES
    from h2htalk_metric.probes.variants import VARIANTS
    from h2htalk_metric.runs.run import Run

    folder = probe_folder(run, "safety")
    if any(Run(folder / variant).folder.exists for variant in VARIANTS):
        raise H2HTalkError(
            f"{folder} has answers to an earlier version of SafetyHighRisk, which had other user turns; to answer this "
            f"version, move {folder} and its result file away (reports still show that result)"
        )
    return {mode: {variant: folder / mode / variant for variant in VARIANTS} for mode in MODES}


def _selected_variants(
    variants: str | None, persona_text: Path | None, complete: Mapping[str, Path], modes: Sequence[Mapping[str, Path]]
) -> tuple[list[str], str | None]:
    """The variants of a command, by default those of this mode's folders, else of the other's; and the user's text."""
    from h2htalk_datasets.probes.persona_texts import read_persona_text
    from h2htalk_metric.probes.variants import OWN, select_variants
    from h2htalk_metric.runs.run import Run

    text = read_persona_text(persona_text) if persona_text else None
    answered = [variant for folders in modes for variant in folders if Run(folders[variant]).complete]
    default = [*complete] or [variant for variant in answered if variant != OWN]
    selected = select_variants(variants or ",".join(default) or "all", own=text is not None)
    if OWN in selected and text is None and OWN not in complete:
        raise H2HTalkError("the variant 'own' needs its text; pass --persona-text FILE")
    return selected, text


def _embedder_of(result: Mapping[str, Any] | None) -> str | None:
    """The embedder that a safety result was made with."""
    return next(iter(result["modes"].values()))["signature"]["embedder"] if result else None


def _settings(
    run: "Run",
    loading: ModelOptions,
    probe: str,
    limit: int | None,
    variant: str | None = None,
    text: str | None = None,
) -> "Settings":
    """The settings of a probe: with the run's own persona, or with that of a variant."""
    from h2htalk_datasets.probes.persona_texts import load_persona_text
    from h2htalk_metric.probes.model import probe_settings, sap_option
    from h2htalk_metric.probes.variants import OWN, VARIANTS

    chosen = VARIANTS[variant] if variant else None
    shipped = load_persona_text(chosen.text) if chosen and chosen.text else ""
    return probe_settings(
        run,
        probe=probe,
        sap=chosen.sap if chosen else sap_option(run),
        persona_text=(text or "") if variant == OWN else shipped,
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
    folders: Iterable[Path],
    panel: "Panel | None",
    judging: JudgeOptions,
    judges: "Sequence[Judge]",
    items_of: "Callable[[Path], Sequence[JudgeItem]] | None" = None,
) -> None:
    """Judge folders one after the other; `items_of` a folder are what is judged, by default all answers of its run."""
    if panel is None:
        return
    from h2htalk_metric.judge.judge_run import judge_run

    for folder in folders:
        items = items_of(folder) if items_of else None
        num_open = judge_run(folder, judges, panel, max_connections=judging.max_connections, items=items)
        print_stopped(judges, num_open, f"{folder}: ")
    print_usage(judges)
