"""The plan of work units."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from h2htalk_datasets.generation import Prompt, make_plan
from h2htalk_datasets.generation.engines.sampling import record_seed

PROMPTS = st.lists(
    st.tuples(st.sampled_from("abc"), st.integers(1, 400), st.sampled_from([64, 96, 320])), min_size=1, max_size=60
).map(
    lambda rows: (
        [Prompt(f"id{i}", "t", group, (), max_new_tokens) for i, (group, _, max_new_tokens) in enumerate(rows)],
        [length for _, length, _ in rows],
    )
)


@given(PROMPTS, st.integers(1, 9), st.randoms(use_true_random=False))
def test_the_plan_is_a_pure_function_of_the_prompts(prompts_and_lengths, size, random):
    prompts, lengths = prompts_and_lengths
    plan = make_plan(prompts, lengths, size)
    ids = [prompt.id for unit in plan for prompt in unit]
    assert sorted(ids) == sorted(prompt.id for prompt in prompts)  # each exactly once
    for unit in plan:
        assert 1 <= len(unit) <= size
        assert len({prompt.group for prompt in unit}) == 1  # a shared prefix
    longest = [max(prompt.max_new_tokens for prompt in unit) for unit in plan]
    assert longest == sorted(longest, reverse=True)
    order = list(range(len(prompts)))
    random.shuffle(order)
    assert make_plan([prompts[i] for i in order], [lengths[i] for i in order], size) == plan


def test_seeds_come_from_run_and_record():
    assert record_seed(3, "a") == record_seed(3, "a") != record_seed(3, "b")
    assert record_seed(3, "a") != record_seed(4, "a")
    assert all(0 <= record_seed(run, "a") < 2**63 for run in range(100))


def test_wrong_input_is_named():
    with pytest.raises(ValueError, match="1 prompts but 2 lengths"):
        make_plan([Prompt("a", "t", "g", (), 1)], [1, 2], 4)
    with pytest.raises(ValueError, match="size of a unit"):
        make_plan([], [], 0)
