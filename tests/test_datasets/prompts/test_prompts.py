import pytest

from h2htalk_datasets import SAP, TASKS, render
from h2htalk_datasets.corpus.sources import load_relationship, source_files
from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.prompts import chat_text, fold_system, for_template, principles, prompt_date


def of(records, task):
    return next(record for record in records if record.task == task)


@pytest.mark.parametrize("task", TASKS)
def test_every_task_has_its_prompt(records, task):
    record = of(records, task)
    system, user = render(record)
    assert (system["role"], user["role"]) == ("system", "user")
    assert system["content"].startswith("How you are with people:")
    # The most shared part comes first: SAP, persona, task.
    starts = [system["content"].index(part) for part in ("Secure base.", f"You are {record.companion}.", "Your task:")]
    assert starts == sorted(starts)
    text = user["content"]
    assert all(turn.content in text for turn in record.history)
    assert all(memory.content in text for memory in record.memories)
    assert all(entry.activity in text for entry in record.schedule)
    assert record.instruction is None or record.instruction in text


def test_no_prompt_contains_its_reference(records):
    about = {path.stem: load_relationship(path).user.about for path in source_files()[:3]}
    for record in records:
        text = "\n".join(message["content"] for message in render(record))
        assert record.reference not in text or record.reference.startswith("No key information"), record.id
        assert about[record.relationship][:60] not in text, record.id


def test_sap_has_seven_principles_with_sources():
    assert len(SAP) == 7
    assert all(principle.source and principle.text for principle in principles())


@pytest.mark.parametrize("left_out", SAP)
def test_each_principle_can_be_left_out(records, left_out):
    complete, ablated = (render(records[0], sap)[0]["content"] for sap in (True, set(SAP) - {left_out}))
    section = next(p.text for p in principles() if p.name == left_out)
    assert section in complete
    assert section not in ablated
    assert len(complete) - len(ablated) < len(section) + 80  # nothing else was removed


def test_without_sap_only_persona_and_task_remain(records):
    system = render(records[0], sap=False)[0]["content"]
    assert system.startswith("You are Maialen.")
    assert not any(principle.heading in system for principle in principles())


def test_unknown_principle_is_named(records):
    with pytest.raises(H2HTalkError, match="unknown SAP principle 'autonomie'. Did you mean autonomy"):
        render(records[0], {"autonomie"})


def test_prompts_of_a_relationship_share_a_prefix(records):
    texts = [render(record)[0]["content"] for record in records if record.relationship == "01-brakewoman"]
    shared = texts[0][: texts[0].index("Your task:")]
    assert all(text.startswith(shared) for text in texts)


NO_SYSTEM = (
    "{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no system role') }}{% endif %}"
    "{{ m.content }}{% endfor %}"
)
DROPS_SYSTEM = "{% for m in messages %}{% if m.role != 'system' %}{{ m.content }}{% endif %}{% endfor %}"


@pytest.mark.parametrize("template", [NO_SYSTEM, DROPS_SYSTEM])
def test_a_persona_is_never_dropped(demo, records, template):
    import copy

    tokenizer = copy.deepcopy(demo.tokenizer)
    tokenizer.chat_template = template
    messages = render(records[0])
    with pytest.raises(H2HTalkError, match="no system role.*--fold-system"):
        for_template(messages, tokenizer)
    folded = for_template(messages, tokenizer, fold=True)
    text = tokenizer.apply_chat_template(folded, tokenize=False)
    assert messages[0]["content"] in text
    assert messages[1]["content"] in text


# As templates do it: a default for date_string, the function at the top level, in a macro, with a variable.
ASKS_FOR_TODAY = """
  {% if not date_string is defined %}
    {%- if strftime_now is defined %}{% set date_string = strftime_now("%d %b %Y") %}{% endif %}
  {% endif %}
{% macro system() %}{{ strftime_now("%Y-%m-%d") }}{% endmacro %}
{% set long = "%A, %B %-d" %}
Today is {{ date_string }}, {{ system() }}, {{ strftime_now(long) }}.
{% for m in messages %}{{ m.role }}: {{ m.content }}{{ "\n" }}{% endfor %}
"""


def test_a_template_that_asks_for_today_gets_a_fixed_date(demo):
    import copy

    tokenizer = copy.deepcopy(demo.tokenizer)
    tokenizer.chat_template = ASKS_FOR_TODAY
    messages = [{"role": "user", "content": "Hello."}]
    text = chat_text(messages, tokenizer)
    assert text == "\nToday is 04 Jul 2025, 2025-07-04, Friday, July 4.\nuser: Hello.\n"
    today = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    assert today.partition("Today")[0] == text.partition("Today")[0]  # only the date differs
    assert prompt_date(tokenizer) == "2025-07-04"
    assert prompt_date(demo.tokenizer) is None


def test_a_template_with_a_system_role_gets_the_messages_unchanged(demo, records):
    messages = render(records[0])
    assert for_template(messages, demo.tokenizer) == messages
    assert len(fold_system(messages)) == 1


def test_a_model_without_a_chat_template_is_an_error(demo, records):
    import copy

    tokenizer = copy.deepcopy(demo.tokenizer)
    tokenizer.chat_template = None
    with pytest.raises(H2HTalkError, match="no chat template"):
        for_template(render(records[0]), tokenizer)
