"""A planner without look-ahead: activities in the order of the prompt, each in the earliest slot that still fits."""

from h2htalk_datasets.planning.checker import check_plan, past_entries
from h2htalk_datasets.planning.problem import Entry
from h2htalk_datasets.planning.times import DAY, Span

STEP = 15


def greedy_plan(problem, earlier=None):
    """A plan on a grid of 15 minutes; an activity that fits nowhere any more is left out.

    In a second turn it keeps the entries of the earlier plan that still fit, one after another, and places the others.
    """
    plan = dict(past_entries(problem, earlier))
    for label, activity in problem.by_label.items():
        old = [earlier[label].span.start] if earlier and label in earlier else []
        grid = range(-(-problem.now_minute // STEP) * STEP, problem.days * DAY, STEP)
        for start in [] if label in plan else [*old, *grid]:
            entry = Entry(label, Span(start, start + activity.minutes))
            if entry.span.end <= problem.days * DAY and _fits(problem, {**plan, label: entry}, earlier):
                plan[label] = entry
                break
    return plan


def _fits(problem, plan, earlier):
    return all(one.kind == "omission" for one in check_plan(problem, plan, earlier))
