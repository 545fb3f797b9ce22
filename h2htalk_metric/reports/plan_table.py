"""The table of `h2htalk plan`."""

__all__ = ["plan_table"]

from collections.abc import Sequence

from h2htalk_datasets.tasks import TASKS
from h2htalk_metric.reports.table import Column, Row, Table, numbers
from h2htalk_metric.stats.planning import CellPlan


def plan_table(plans: Sequence[CellPlan], difference: float) -> Table:
    """What each cell needs to show a difference of S times 100."""
    rows = []
    for one in plans:
        limit = "more than all" if one.limit is None else str(one.limit)
        relationships = "over 100,000" if one.relationships_needed is None else f"{one.relationships_needed:,}"
        cells = (one.cell, str(one.records), str(one.relationships), f"{one.detectable:.2f}", limit, relationships)
        rows.append(Row(cells, emphasized=one.cell not in TASKS))
    return Table(
        f"To show a difference of {difference:g} in S times 100 (80% power, 5% level)",
        (
            Column("cell", "text"),
            *numbers("records", "relationships", "detectable", "--limit needed", "relationships needed"),
        ),
        tuple(rows),
        notes=(
            "Detectable: smallest true difference that a paired test over all these records finds.",
            "--limit needed: records per config that are enough, evenly spread over the relationships.",
            "Relationships needed: as many records per relationship as now.",
        ),
    )
