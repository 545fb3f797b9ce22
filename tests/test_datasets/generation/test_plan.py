"""The batch plan."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from h2htalk_datasets.generation import BatchSpec, Prompt, make_plan

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
    ids = [identity for batch in plan for identity in batch.ids]
    assert sorted(ids) == sorted(prompt.id for prompt in prompts)  # each exactly once
    groups = {prompt.id: prompt.group for prompt in prompts}
    for number, batch in enumerate(plan):
        assert batch.number == number
        assert 1 <= len(batch.ids) <= size
        assert len({groups[identity] for identity in batch.ids}) == 1  # a shared prefix
    limits = {prompt.id: prompt.max_new_tokens for prompt in prompts}
    longest = [max(limits[identity] for identity in batch.ids) for batch in plan]
    assert longest == sorted(longest, reverse=True)
    order = list(range(len(prompts)))
    random.shuffle(order)
    assert make_plan([prompts[i] for i in order], [lengths[i] for i in order], size) == plan


def test_of_batches_with_equal_limits_the_one_with_more_text_to_read_comes_first():
    def prompt(name: str, group: str, text: str) -> Prompt:
        return Prompt(name, "t", group, ({"role": "user", "content": text},), 64)

    alike = [prompt(f"alike{i}", "a", "x" * 500 + str(i)) for i in range(2)]  # 500 characters once, though longer
    apart = [prompt(f"apart{i}", "b", str(i) + "x" * 400) for i in range(2)]  # 400 twice
    plan = make_plan(alike + apart, [509, 509, 409, 409], 2)
    assert [batch.ids[0] for batch in plan] == ["apart0", "alike0"]


def test_seeds_come_from_the_batch():
    one, same, other = BatchSpec(0, ("a", "b")), BatchSpec(7, ("a", "b")), BatchSpec(0, ("a", "c"))
    assert one.seed(3) == same.seed(3) != other.seed(3)
    assert one.seed(3) != one.seed(4)


def test_wrong_input_is_named():
    with pytest.raises(ValueError, match="1 prompts but 2 lengths"):
        make_plan([Prompt("a", "t", "g", (), 1)], [1, 2], 4)
    with pytest.raises(ValueError, match="batch size"):
        make_plan([], [], 0)
