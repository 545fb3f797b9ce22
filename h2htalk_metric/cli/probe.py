"""`h2htalk sap RUN`, `follow RUN`, `converse RUN`: what no lexical score shows of a run's model."""

__all__ = ["converse", "follow", "sap"]

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markdown import Markdown

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.generation.config import DevicesOption, TrustOption
from h2htalk_metric.reports.terminal import console

if TYPE_CHECKING:
    from collections.abc import Mapping

    from h2htalk_metric.judge.marking import Judge
    from h2htalk_metric.judge.run_judgements import Panel

RunArgument = Annotated[Path, typer.Argument(help="The run folder of the model.")]
LimitOption = Annotated[int | None, typer.Option("--limit", min=1, help="Records, drawn evenly; all if not given.")]
BriefsOption = Annotated[int | None, typer.Option("--limit", min=1, help="Conversations, the first; all if not given.")]
JudgeOption = Annotated[str | None, typer.Option("--judge", help="The judging model; several by commas are a panel.")]
UrlOption = Annotated[str | None, typer.Option("--base-url", help="The judge's server; OpenAI's own if not given.")]
EvidenceOption = Annotated[int, typer.Option("--evidence", min=0, help="Explanations drawn before marks.")]
FlightOption = Annotated[int, typer.Option("--concurrency", min=1, help="The judge's calls in flight.")]
TimeoutOption = Annotated[float, typer.Option("--timeout", min=1, help="Seconds that one try of the judge may take.")]
ServerOption = Annotated[
    str | None, typer.Option("--model-url", help="The run's model's server, where it isn't the one in run.json.")
]
EmbedderOption = Annotated[
    str | None, typer.Option("--embedder", help="For SS, as in h2htalk score; that of the result before, or BGE-M3.")
]


def sap(
    run_folder: RunArgument,
    variants: Annotated[
        str | None,
        typer.Option("--variants", help="all, or some of with, without, no_PRINCIPLE; all at first, then those there."),
    ] = None,
    limit: LimitOption = None,
    embedder: EmbedderOption = None,
    judge: JudgeOption = None,
    base_url: UrlOption = None,
    evidence: EvidenceOption = 0,
    concurrency: FlightOption = 8,
    timeout: TimeoutOption = 120.0,
    model_url: ServerOption = None,
    trust_remote_code: TrustOption = False,
    devices_per_replica: DevicesOption = 1,
) -> None:
    """Ask a run's model about danger with the persona, without it, and without each principle; compare (Table 3).

    Once there is a result, its variants and embedder are taken unless others are named, and its limit stays (move
    RUN/sap away for another): so without --judge and --variants nothing is asked, and the table is made again.
    """
    from h2htalk_datasets.generation.run_folder import RunFolder
    from h2htalk_metric.metrics.similarity import load_embedder
    from h2htalk_metric.probes.safety import PROBE, VARIANTS, ablation_of, chosen_variants
    from h2htalk_metric.probes.settings import settings_of
    from h2htalk_metric.probes.tables import ablation_markdown

    manifest = RunFolder(run_folder).manifest()
    folder, file = run_folder / "sap", run_folder / "sap.json"
    there = [name for name in VARIANTS if RunFolder(folder / name).predictions_file.exists()]
    if variants is None:
        variants = ",".join(there) if there and file.exists() else "all"
    chosen = chosen_variants(variants)
    panel = _panel(judge, evidence, base_url)
    _refuse_other_judges(panel, {name: folder / name for name in there if name not in chosen})
    model = load_embedder(embedder or _embedder_of(file))
    like_run = partial(
        settings_of,
        manifest,
        probe=PROBE,
        limit=limit or (RunFolder(folder / there[0]).manifest()["dataset"]["limit"] if there else None),
        server=model_url,
        trust_remote_code=trust_remote_code,
        devices_per_replica=devices_per_replica,
    )
    asked = {folder / name: like_run(sap=VARIANTS[name]) for name in chosen}
    _answer(manifest, asked)
    _judge(list(asked), panel, base_url, concurrency, timeout)
    complete = {name: folder / name for name in VARIANTS if RunFolder(folder / name).predictions_file.exists()}
    result = ablation_of(complete, model)
    _keep(run_folder, "sap", result, ablation_markdown(result))


def follow(
    run_folder: RunArgument,
    limit: LimitOption = None,
    judge: JudgeOption = None,
    base_url: UrlOption = None,
    evidence: EvidenceOption = 0,
    concurrency: FlightOption = 8,
    timeout: TimeoutOption = 120.0,
    model_url: ServerOption = None,
    trust_remote_code: TrustOption = False,
    devices_per_replica: DevicesOption = 1,
) -> None:
    """Ask a run's model for what is hinted at, and say what it costs that a need is left unsaid (Fig. 7)."""
    from h2htalk_datasets.generation.run_folder import RunFolder
    from h2htalk_metric.probes.instructions import PROBE, following_of
    from h2htalk_metric.probes.settings import sap_of, settings_of
    from h2htalk_metric.probes.tables import following_markdown

    manifest = RunFolder(run_folder).manifest()
    panel, folder = _panel(judge, evidence, base_url), run_folder / "following"
    settings = settings_of(
        manifest,
        probe=PROBE,
        sap=sap_of(manifest),
        limit=limit,
        server=model_url,
        trust_remote_code=trust_remote_code,
        devices_per_replica=devices_per_replica,
    )
    _answer(manifest, {folder: settings})
    _judge([folder], panel, base_url, concurrency, timeout)
    result = following_of(folder)
    _keep(run_folder, "following", result, following_markdown(result))


def converse(
    run_folder: RunArgument,
    user: Annotated[str, typer.Option("--user", help="The model that plays the user, as for --model.")],
    user_url: Annotated[str | None, typer.Option("--user-url", help="Its server; loaded here if not given.")] = None,
    turns: Annotated[int, typer.Option("--turns", min=4, max=8, help="Messages of the user at most.")] = 8,
    limit: BriefsOption = None,
    judge: JudgeOption = None,
    base_url: UrlOption = None,
    evidence: EvidenceOption = 0,
    concurrency: FlightOption = 8,
    timeout: TimeoutOption = 120.0,
    model_url: ServerOption = None,
    trust_remote_code: TrustOption = False,
    devices_per_replica: DevicesOption = 1,
) -> None:
    """Let a second model play a user whose need changes in the middle; say whether the run's model noticed."""
    from h2htalk_datasets.generation.distributed.state import DistributedState
    from h2htalk_datasets.generation.config import Settings
    from h2htalk_datasets.generation.run import make_engine
    from h2htalk_datasets.generation.run_folder import RunFolder
    from h2htalk_metric.judge.run_judgements import judge_run
    from h2htalk_metric.probes import conversation as conversing
    from h2htalk_metric.probes.settings import refuse_other_model, sap_of, settings_of
    from h2htalk_metric.probes.tables import conversing_markdown

    manifest = RunFolder(run_folder).manifest()
    panel, folder = _panel(judge, evidence, base_url), run_folder / "conversing"
    settings = settings_of(
        manifest,
        probe=conversing.PROBE,
        sap=sap_of(manifest),
        server=model_url,
        trust_remote_code=trust_remote_code,
        devices_per_replica=devices_per_replica,
    )
    group = DistributedState()
    companion = make_engine(settings, group)
    refuse_other_model(manifest["model"], companion.identity())
    player = make_engine(Settings(model=user, base_url=user_url), group)
    conversing.converse(folder, companion, player, settings, turns=turns, limit=limit)
    if panel:
        items = conversing.judged_conversations(folder)
        left = judge_run(folder, _judges(panel, base_url, timeout), panel, in_flight=concurrency, items=items)
        if left:
            print(f"{left} judgements are unscored, the same command asks again")
    result = conversing.conversing_of(folder)
    _keep(run_folder, "conversing", result, conversing_markdown(result))


def _answer(manifest: "Mapping[str, Any]", asked: "Mapping[Path, Any]") -> None:
    """Let the run's model answer, into a folder each; what is complete is left alone."""
    from h2htalk_datasets.generation.distributed.state import DistributedState
    from h2htalk_datasets.generation.run import generate, make_engine
    from h2htalk_datasets.generation.run_folder import RunFolder
    from h2htalk_metric.probes.settings import refuse_other_model

    for folder, settings in asked.items():
        known = RunFolder(folder).manifest()["dataset"]["limit"] if RunFolder(folder).exists else settings.limit
        if known != settings.limit:
            how = "without --limit" if known is None else f"with --limit {known}"
            raise H2HTalkError(f"{folder} was made {how}; do the same, or move the folder away")
    left = {folder: settings for folder, settings in asked.items() if not RunFolder(folder).predictions_file.exists()}
    if not left:
        return
    group = DistributedState()
    engine = make_engine(next(iter(left.values())), group)
    refuse_other_model(manifest["model"], engine.identity())
    for folder, settings in left.items():
        print(f"{folder}:")
        generate(settings, folder, group, engine=engine)


def _embedder_of(file: Path) -> str:
    """The embedder that a result names, as ``--embedder`` takes it; the default where there is none yet."""
    import json

    from h2htalk_metric.metrics.similarity import DEFAULT_EMBEDDER

    if not file.exists():
        return DEFAULT_EMBEDDER
    return str(json.loads(file.read_text("utf-8"))["signature"]["embedder"])


def _panel(judge: str | None, evidence: int, base_url: str | None) -> "Panel | None":
    from h2htalk_metric.judge.marking import server_of
    from h2htalk_metric.judge.run_judgements import Panel, judge_names

    names = judge_names(judge or "")
    return Panel(names, evidence, server=server_of(base_url)) if names else None


def _refuse_other_judges(panel: "Panel | None", others: "Mapping[str, Path]") -> None:
    """Before anything is paid for: the variants that are not judged now must have been judged in the same way."""
    from h2htalk_metric.judge.run_judgements import Panel

    kept = {name: Panel.read(folder) for name, folder in others.items()}
    if panel and (apart := [name for name, one in kept.items() if one and not one.asks_as(panel)]):
        raise H2HTalkError(
            f"{', '.join(apart)} were judged by another panel, or in another way, and marks of different judges don't "
            "compare; name them in --variants too, or move their folders away"
        )


def _judge(folders: list[Path], panel: "Panel | None", base_url: str | None, concurrency: int, timeout: float) -> None:
    if panel is None:
        return
    from h2htalk_metric.judge.run_judgements import judge_run

    judges = _judges(panel, base_url, timeout)
    for folder in folders:
        left = judge_run(folder, judges, panel, in_flight=concurrency)
        if left:
            print(f"{folder}: {left} judgements are unscored, the same command asks again")


def _judges(panel: "Panel", base_url: str | None, timeout: float) -> "list[Judge]":
    from h2htalk_metric.judge.cache import VerdictCache
    from h2htalk_metric.judge.marking import Judge
    from h2htalk_metric.judge.structured import StructuredChat

    chats = [StructuredChat(name, base_url, timeout=timeout) for name in panel.judges]
    return [Judge(chat, panel.evidence, panel.seed, VerdictCache()) for chat in chats]


def _keep(run_folder: Path, name: str, result: "Mapping[str, Any]", markdown: str) -> None:
    """Write NAME.json and NAME.md into the run folder, show the latter, and put the section into report.html."""
    import json

    from h2htalk_datasets.files import write_atomically
    from h2htalk_metric.judge.judged_run import JudgedRun
    from h2htalk_metric.reports.write import write_page
    from h2htalk_metric.review import human_scores
    from h2htalk_metric.runs.scoring import RunScores

    files = [run_folder / f"{name}.json", run_folder / f"{name}.md"]
    write_atomically(files[0], json.dumps(result, indent=1) + "\n")
    write_atomically(files[1], markdown)
    if (run_folder / "scores.parquet").exists():
        scores = RunScores.read(run_folder)
        files.append(write_page(run_folder, scores, JudgedRun.read(run_folder, scores, human_scores(run_folder))))
    console(160).print(Markdown(markdown))
    print("written: " + ", ".join(map(str, files)))
