"""The shipped scenarios of CompanionPlanning, and changed plans."""

from functools import cache

from h2htalk_datasets.planning import parse_plan, read_scenarios


@cache
def scenarios():
    """All scenarios by slug."""
    return {scenario.slug: scenario for scenario in read_scenarios()}


def changed_plan(problem, plan, edits):
    """A plan with some entries at other times, or without them.

    Args:
        problem: of the plan.
        plan: entries by label.
        edits: label to a time such as ``Tue 10:00-11:00``, or None to leave it out.

    """
    kept = {label: entry for label, entry in plan.items() if label not in edits}
    lines = [f"{time} {label}" for label, time in edits.items() if time]
    return kept | parse_plan("\n".join(lines), problem).entries
