"""``h2htalk compare ... --out compare.html``: many runs as one page that works without a network."""

__all__ = ["comparison_page", "write_comparison"]

from collections.abc import Mapping, Sequence
from pathlib import Path

from markupsafe import Markup

from h2htalk_datasets.files import describe_write_errors, write_atomically
from h2htalk_metric.reports.different_answers import most_different
from h2htalk_metric.reports.rendering import TEMPLATES, render_macro, templates
from h2htalk_metric.reports.run_group_tables import group_sections
from h2htalk_metric.reports.table import Bullets, Section
from h2htalk_metric.runs.groups import RunGroup
from h2htalk_metric.runs.model_sizes import ModelSize, size_key


def write_comparison(
    groups: Sequence[RunGroup], file: str | Path, sizes: Mapping[tuple[str, str], ModelSize] | None = None
) -> None:
    """Write :func:`comparison_page` to a file; its folder is created.

    Raises:
        H2HTalkError: see :func:`comparison_page`; or the file cannot be written.

    """
    page = comparison_page(groups, sizes)
    with describe_write_errors(file):
        Path(file).parent.mkdir(parents=True, exist_ok=True)
        write_atomically(Path(file), page)


def comparison_page(groups: Sequence[RunGroup], sizes: Mapping[tuple[str, str], ModelSize] | None = None) -> str:
    """Compare runs on one HTML page, which loads nothing from any network.

    Args:
        groups: of runs that can be compared; see :func:`h2htalk_metric.runs.groups.run_groups`. Each has its own
            tables, so no table has figures that cannot be compared.
        sizes: family and number of parameters by name of the model and of its adapter (or ""); see
            :func:`h2htalk_metric.runs.model_sizes.size_key`.

    Raises:
        H2HTalkError: the answers of a run are missing, or the installed dataset is not that of the runs.

    """
    bodies = [_apart(groups)] if len(groups) > 1 else []
    for number, group in enumerate(groups, 1):
        if len(group.runs) > 1:
            bodies += _of_group(group, sizes or {}, f"{number}" if len(groups) > 1 else "")
    return (
        templates()
        .get_template("comparison.html.jinja")
        .render(
            groups=groups,
            num_runs=len({run.path for group in groups for run in group.runs.values()}),
            sections=bodies,
            style=Markup((TEMPLATES / "report.css").read_text("utf-8")),
        )
    )


def _of_group(
    group: RunGroup, sizes: Mapping[tuple[str, str], ModelSize], number: str
) -> list[tuple[str, str, Markup]]:
    of_runs = {label: sizes[key] for label, run in group.runs.items() if (key := size_key(run)) in sizes}
    prefix = f"Group {number}: " if number else ""
    bodies = [_body(section, prefix, number) for section in group_sections(group, of_runs)]
    answers = render_macro("sections.jinja", "different_answers", groups=most_different(group))
    bodies.insert(len(bodies) - 1, (f"answers{number}", f"{prefix}Most different answers", answers))
    return bodies


def _body(section: Section, prefix: str = "", number: str = "") -> tuple[str, str, Markup]:
    body = render_macro("sections.jinja", "blocks", section=section, kind="runs")
    return f"{section.anchor}{number}", f"{prefix}{section.title}", body


def _apart(groups: Sequence[RunGroup]) -> tuple[str, str, Markup]:
    """Which runs cannot be compared, and why."""
    lines = tuple(
        f"Group {number}: {', '.join(group.runs)}" + (f". Apart from group 1: {group.reason}" if group.reason else "")
        for number, group in enumerate(groups, 1)
    )
    text = (
        "These runs were scored in different ways or over different records. Only runs of one group are compared with "
        "each other, and a group of one run has no tables."
    )
    return _body(Section("groups", "Groups", (text, Bullets(lines))))
