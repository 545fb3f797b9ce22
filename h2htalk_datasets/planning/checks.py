"""Checks over all scenarios of CompanionPlanning; the schema has checked each one, with its plans, already."""

__all__ = ["check_scenarios"]

from collections import Counter
from collections.abc import Sequence

from h2htalk_datasets.corpus.check import Check
from h2htalk_datasets.corpus.sources import load_people
from h2htalk_datasets.planning.constraints import KINDS
from h2htalk_datasets.planning.scenario import LEVELS, Scenario

_SMALLEST = 20  # scenarios of a level


def check_scenarios(scenarios: Sequence[Scenario], language: str = "en") -> list[Check]:
    """Run all checks.

    Args:
        scenarios: of the set.
        language: of their relationships.

    """
    levels = Counter(one.level for one in scenarios)
    few = [f"{level}: {levels[level]}, expected {_SMALLEST}" for level in LEVELS if levels[level] < _SMALLEST]
    kinds = {constraint.rule.kind for one in scenarios for constraint in one.constraints}
    slugs = Counter(one.slug for one in scenarios)
    return [
        Check.no_offenders(f"CompanionPlanning: at least {_SMALLEST} scenarios of each level", few),
        Check.no_offenders("CompanionPlanning: every kind of constraint occurs", sorted(set(KINDS) - kinds)),
        Check.no_offenders("CompanionPlanning: every slug occurs once", [one for one, n in slugs.items() if n > 1]),
        Check.no_offenders("CompanionPlanning: people of their relationship", _other_people(scenarios, language)),
    ]


def _other_people(scenarios: Sequence[Scenario], language: str) -> list[str]:
    relationships = {one.relationship for one in scenarios}
    names = {name: tuple(person.name for person in load_people(name, language)) for name in relationships}
    return [one.slug for one in scenarios if names[one.relationship] != (one.companion, one.user)]
