"""CompanionPlanning: two people plan three to seven days under constraints, then something changes. Checked by program.

times.py        spans of time, and their short notation
constraints.py  the vocabulary of constraints, one class per kind
problem.py      days, activities and constraints of a problem; the entries of a plan
checker.py      one check per kind; constraints that are satisfied; changes without need
parse.py        from an answer to the entries of a plan
scenario.py     the YAML sources in en/, each with a valid plan for both turns
checks.py       checks over all scenarios
rows.py         scenarios as dataset rows, and back

It is never part of the composite score or of the 4,650 records.
"""

__all__ = [
    "check_plan",
    "parse_plan",
    "problem_of",
    "read_scenarios",
    "satisfied",
    "unnecessary_changes",
]

from h2htalk_datasets.planning.checker import check_plan, satisfied, unnecessary_changes
from h2htalk_datasets.planning.parse import parse_plan
from h2htalk_datasets.planning.rows import problem_of
from h2htalk_datasets.planning.scenario import read_scenarios
