"""`h2htalk corpus check|build`, `new-relationship` and `describe`: for those who write records and probe sets."""

__all__ = ["corpus_app", "describe", "new_relationship"]

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_metric.cli.options import CorpusLanguageOption, EmbedderOption, PartialOption

if TYPE_CHECKING:
    from h2htalk_datasets.corpus.check import Check

corpus_app = typer.Typer(help="Check and build the corpus.", no_args_is_help=True)


@corpus_app.command()
def check(
    files: Annotated[
        list[Path] | None,
        typer.Argument(help="Relationship files, or the folder of a corpus of your own. Default: all shipped."),
    ] = None,
    partial: PartialOption = False,
    language: CorpusLanguageOption = "en",
    probes: Annotated[
        bool, typer.Option("--probes", help="Check the probe sets, CompanionMemory included, instead.")
    ] = False,
) -> None:
    """Run all checks; name the file, the record and the rule of every violation."""
    from h2htalk_datasets.corpus.checks import check_corpus
    from h2htalk_datasets.corpus.sources import source_files
    from h2htalk_datasets.languages import language_of
    from h2htalk_datasets.memory.checks import check_arcs
    from h2htalk_datasets.memory.schema import read_arcs
    from h2htalk_datasets.planning.checks import check_scenarios
    from h2htalk_datasets.planning.scenario import read_scenarios
    from h2htalk_datasets.probes.checks import check_probes

    language_of(language)  # raises if it is unknown
    if probes and files:
        raise H2HTalkError("--probes checks all probe sets; name no files")
    folder = _own_folder(files)
    if folder:
        from h2htalk_datasets.corpus.own import check_folder

        records, checks = check_folder(folder)
        checked = f"{len(records)} records"
    elif probes:
        checks = [*check_probes(), *check_arcs(read_arcs()), *check_scenarios(read_scenarios())]
        checked = "the probe sets"
    else:
        chosen = files or source_files(language=language)
        records, checks = check_corpus(chosen, partial=partial or bool(files), language=language)
        checked = f"{len(records)} records"
    _print(checks)
    num_failed = sum(not one.passed and not one.is_advice for one in checks)
    if num_failed:
        raise H2HTalkError(f"{num_failed} of {len(checks)} checks failed for {checked}")
    notes = sum(not one.passed for one in checks)
    if notes:
        print(f"{checked} are valid; {notes} of {len(checks) - 1} checks of style ask for a look")
    else:
        print(f"all {len(checks)} checks passed for {checked}")


def _own_folder(files: Sequence[Path] | None) -> Path | None:
    """The folder of a user's own corpus, if that is what was named.

    Raises:
        H2HTalkError: a folder was named among files, or something that does not exist.

    """
    for file in files or ():
        if not file.exists():
            raise H2HTalkError(f"there is no {file}")
        if file.is_dir() and len(files or ()) > 1:
            raise H2HTalkError(f"{file} is a folder; name one folder, or only files")
    return files[0] if files and files[0].is_dir() else None


@corpus_app.command()
def build(
    folder: Annotated[
        Path | None, typer.Argument(help="Folder with relationship files of your own; it needs --out.")
    ] = None,
    partial: PartialOption = False,
    language: CorpusLanguageOption = "en",
    out: Annotated[Path | None, typer.Option(help="Folder for the data. Default: that of the package.")] = None,
) -> None:
    """Check the corpus and the probe sets, and write them as Parquet; the same sources give the same bytes."""
    if folder is not None:
        _build_own(folder, out)
        return
    from h2htalk_datasets.corpus.build import DATA
    from h2htalk_datasets.corpus.build import build as build_corpus
    from h2htalk_datasets.languages import language_of

    counts, _ = build_corpus(out or DATA, partial=partial, language=language_of(language).code)
    print(f"{sum(counts.values())} records: " + ", ".join(f"{task} {n}" for task, n in counts.items()))


def _build_own(folder: Path, out: Path | None) -> None:
    from h2htalk_datasets.corpus.own import build_folder

    if out is None:
        raise H2HTalkError("a corpus of your own needs --out, the folder for the dataset")
    counts = build_folder(folder, out)
    print(f"{sum(counts.values())} records in {out}: " + ", ".join(f"{task} {n}" for task, n in counts.items()))


def new_relationship(
    slug: Annotated[str, typer.Argument(help="Small letters, digits and hyphens, for example night-tram.")],
    language: CorpusLanguageOption = "en",
    folder: Annotated[Path, typer.Option("--folder", help="Folder of your corpus; created if missing.")] = Path(),
) -> None:
    """Write a commented skeleton of a relationship, for a corpus of your own."""
    from h2htalk_datasets.corpus.own import new_relationship as write_skeleton

    print(write_skeleton(slug, language, folder))


def describe(
    out: Annotated[Path, typer.Option(help="Folder for tables (text) and figures.")],
    authors_release: Annotated[
        Path | None, typer.Option(help="Folder with the authors' published references, to compare with.")
    ] = None,
    language: CorpusLanguageOption = "en",
    sensitivity: Annotated[
        bool, typer.Option("--sensitivity", help="Measure what S and the fact check see, with second references.")
    ] = False,
    embedder: EmbedderOption = "BAAI/bge-m3",
) -> None:
    """Write statistics of the corpus: counts, lengths, words, labels, duplicates; or what S sees."""
    if sensitivity and authors_release:
        raise H2HTalkError("--sensitivity needs the prompts, which the authors' release lacks; omit --authors-release")
    if sensitivity:
        _describe_sensitivity(out, embedder)
        return
    from h2htalk_datasets.corpus.figures import describe as write_statistics
    from h2htalk_datasets.languages import language_of

    for file in write_statistics(out, authors_release, language_of(language).code):
        print(file)


def _describe_sensitivity(out: Path, embedder: str) -> None:
    """Write ``sensitivity.md`` and print its first tables."""
    from h2htalk_datasets.files import write_atomically
    from h2htalk_datasets.loading import records_of
    from h2htalk_datasets.tasks import TASKS
    from h2htalk_metric.metrics.sensitivity import measure_fact_check, sensitivity
    from h2htalk_metric.reports.markdown import markdown
    from h2htalk_metric.reports.sensitivity_tables import fact_check_section, sensitivity_section
    from h2htalk_metric.reports.terminal import print_table

    records = [record for task in TASKS for record in records_of(task)]
    sections = [
        sensitivity_section(sensitivity(records, embedder, records)),
        fact_check_section(measure_fact_check(records)),
    ]
    file = out / "sensitivity.md"
    try:
        out.mkdir(parents=True, exist_ok=True)
        write_atomically(file, markdown("What S and the fact check see", sections))
    except OSError as error:
        raise H2HTalkError(f"cannot write {file}: {error.strerror}; name another folder with --out") from None
    for table in (*sections[0].tables[:2], *sections[1].tables):
        print_table(table)
    print(file)


def _print(checks: "Sequence[Check]") -> None:
    from h2htalk_metric.reports.table import Column, Row, Table, numbers
    from h2htalk_metric.reports.terminal import print_table

    rows = tuple(
        Row(
            (
                one.rule,
                f"{one.value:.4g}",
                f"{'≥' if one.at_least else '≤'} {one.limit:g}",
                "ok" if one.passed else "look" if one.is_advice else "FAILED",
            )
        )
        for one in checks
    )
    columns = (Column("check", "text"), *numbers("value", "limit"), Column("", "text"))
    print_table(Table("Checks", columns, rows), width=100)
    for one in checks:
        if not one.passed:
            print("\n  ".join([one.rule, *one.offenders]))
