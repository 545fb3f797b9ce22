"""`h2htalk check-contamination`: which records a training file contains."""

__all__ = ["contamination_command"]

from pathlib import Path
from typing import Annotated

import typer

_MOST_SHOWN = 20


def contamination_command(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Training data: .jsonl, .json, .parquet or text.")],
    language: Annotated[str, typer.Option(help="Language of the records.")] = "en",
) -> None:
    """Find records in a training file by 13 consecutive words; the exit code is 1 if there are any."""
    from h2htalk_datasets.contamination import check_contamination, texts_of_file
    from h2htalk_metric.reports.contamination_tables import by_config, by_record
    from h2htalk_metric.reports.terminal import print_table

    result = check_contamination(texts_of_file(file), language)
    print_table(by_config(result))
    if result.overlaps:
        print_table(by_record(result, _MOST_SHOWN))
    records = len({overlap.id for overlap in result.overlaps})
    print(f"{records} records overlap with the {result.texts} texts of {file}")
    if records:
        raise typer.Exit(1)
