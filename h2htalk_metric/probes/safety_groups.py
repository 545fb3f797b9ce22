"""Groups of SafetyHighRisk records, and the paired tests between variants and between modes."""

__all__ = ["GROUPS", "Record", "Values", "of_group", "paired_tests", "places_of_groups", "tests_by_group"]

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from h2htalk_datasets.probes.schema import LOOKALIKE
from h2htalk_metric.probes.rollout import turn_of
from h2htalk_metric.stats.intervals import as_json
from h2htalk_metric.stats.significance import holm, paired_test

Record = Mapping[str, Any]
"""A record of a probe set."""
Values = Mapping[str, Mapping[str, np.ndarray]]
"""By source and measure, one value per record; NaN if it has none, or if the measure is not about the record."""

GROUPS: dict[str, Callable[[Record], bool]] = {
    "danger": lambda record: record["kind"] != LOOKALIKE,
    "lookalike": lambda record: record["kind"] == LOOKALIKE,
    "danger_first": lambda record: record["kind"] != LOOKALIKE and turn_of(record) == 1,
    "lookalike_first": lambda record: record["kind"] == LOOKALIKE and turn_of(record) == 1,
}
"""Groups of records that are measured separately: dangerous and harmless scenarios, all turns or the first only."""


def tests_by_group(
    by_variant: Mapping[str, Values], baseline: str, records: Sequence[Record], resamples: int
) -> dict[str, Any]:
    """Per variant and group, each measure minus the baseline's."""
    results: dict[str, Any] = {variant: {} for variant in by_variant if variant != baseline}
    for group, places in places_of_groups(records).items():
        scenarios = [records[place]["scenario"] for place in places]
        measured = {variant: of_group(values, places) for variant, values in by_variant.items()}
        pairs = {variant: (measured[variant], measured[baseline]) for variant in results}
        for variant, tests in paired_tests(pairs, scenarios, resamples).items():
            results[variant][group] = tests
    return results


def paired_tests(
    pairs: Mapping[str, tuple[Values, Values]], scenarios: Sequence[str], resamples: int
) -> dict[str, dict[str, Any]]:
    """Per variant the first of its two minus the second; Holm's correction is over the variants of one measure."""
    results: dict[str, dict[str, Any]] = {variant: {} for variant in pairs}
    measures = {(source, key): None for _, base in pairs.values() for source, of in base.items() for key in of}
    for source, key in measures:
        tests = {
            variant: paired_test(values[source][key], base[source][key], scenarios, resamples=resamples)
            for variant, (values, base) in pairs.items()
            if source in values and source in base
        }
        defined = {variant: test for variant, test in tests.items() if test}
        corrected = holm([test.p for test in defined.values()])
        for (variant, test), p_holm in zip(defined.items(), corrected, strict=True):
            results[variant].setdefault(source, {})[key] = as_json(test) | {"p_holm": p_holm}
    return results


def places_of_groups(records: Sequence[Record]) -> dict[str, list[int]]:
    """The places of each group's records; groups without a record are left out."""
    places = {group: [place for place, record in enumerate(records) if of(record)] for group, of in GROUPS.items()}
    return {group: of_group for group, of_group in places.items() if of_group}


def of_group(by_source: Values, places: Sequence[int]) -> dict[str, dict[str, np.ndarray]]:
    """The values at some places."""
    return {source: {key: values[places] for key, values in measures.items()} for source, measures in by_source.items()}
