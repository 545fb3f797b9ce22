"""The split by relationship."""

import pytest

from h2htalk_datasets.loading import records_of
from h2htalk_datasets.splits import split_by_relationship


@pytest.mark.parametrize(("share", "expected"), [(0.2, 10), (0.0, 1), (1.0, 49)])
def test_the_parts_have_no_relationship_in_common_and_lose_no_record(share, expected):
    rows = records_of("DialogueBase")
    first, second = split_by_relationship(rows, share)
    names = [{row["relationship"] for row in part} for part in (first, second)]
    assert len(names[0]) == expected and not names[0] & names[1]
    assert len(first) + len(second) == len(rows)
    assert split_by_relationship(rows, share)[0] == first
    assert expected in (1, 49) or split_by_relationship(rows, share, seed=1)[0] != first
