"""Letters of significance groups: by hand, and for any set of differences."""

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from h2htalk_metric.stats.groups import letter_groups


def test_letters_by_hand():
    assert letter_groups(["A", "B", "C"], []) == {"A": ("a",), "B": ("a",), "C": ("a",)}
    assert letter_groups(["A", "B", "C"], [("A", "C")]) == {"A": ("a",), "B": ("a", "b"), "C": ("b",)}
    # B differs from nobody, A from C and D: the two letters of B join it to A and to C and D.
    letters = letter_groups(["A", "B", "C", "D"], [("A", "C"), ("D", "A")])
    assert letters == {"A": ("a",), "B": ("a", "b"), "C": ("b",), "D": ("b",)}


@given(
    st.integers(1, 9).flatmap(lambda n: st.tuples(st.just(n), st.sets(st.sampled_from([*combinations(range(9), 2)]))))
)
def test_two_names_share_a_letter_exactly_if_they_are_not_different(example):
    count, pairs = example
    names = [f"run {number}" for number in range(count)]
    different = {(names[one], names[other]) for one, other in pairs if other < count}
    letters = letter_groups(names, different)
    for pair in combinations(names, 2):
        assert bool(set(letters[pair[0]]) & set(letters[pair[1]])) == (pair not in different)


def test_more_than_26_groups_have_two_letters():
    names = [str(number) for number in range(30)]
    letters = letter_groups(names, list(combinations(names, 2)))
    assert [letters["0"], letters["25"], letters["26"], letters["29"]] == [("a",), ("z",), ("aa",), ("ad",)]
