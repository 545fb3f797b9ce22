"""What differs between languages: units of length, formats of answers, prompts, and choosing records."""

import re

import pytest
from helpers.commands import h2htalk

from h2htalk_datasets import SAP, TASKS, load, render
from h2htalk_datasets.answer_format import format_error, parse_day, parse_memories, strip_scaffold
from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.generation.requests import chosen_rows, prompt_of
from h2htalk_datasets.languages import LANGUAGES, is_sentinel, language_of, select_languages
from h2htalk_datasets.schema import Record

DAY = "07:00 起床\n09:00 开门\n13:00 打盹\n18:00 散步\n22:00 泡脚睡觉"
MEMORY = "记忆内容：小安爱游泳。\n记忆类别：爱好\n记忆重要性：2"


def of(records, task):
    return next(record for record in records if record.task == task)


def test_the_categories_are_parallel():
    english, chinese = (LANGUAGES[code].categories for code in ("en", "zh"))
    assert len(english) == len(chinese) == 24
    pairs = dict(zip(english, chinese, strict=True))
    assert (pairs["Name"], pairs["MBTI"], pairs["Fandom"], pairs["Other Events"]) == (
        "姓名",
        "MBTI",
        "追星",
        "其他事件",
    )


def test_chinese_is_counted_in_characters_without_white_space():
    assert LANGUAGES["zh"].count("好 的，\n1.5元") == 7
    assert LANGUAGES["en"].count("All right, 1.5.") == 3


def test_a_chinese_day_ends_with_its_own_word_for_sleep():
    assert parse_day(DAY + "\n\n（他很累。）", "zh")[-1].text == "泡脚睡觉"
    with pytest.raises(ValueError, match="睡 at or after 20:00"):
        parse_day(DAY.replace("睡觉", "sleep"), "zh")
    with pytest.raises(ValueError, match="sleep at or after 20:00"):
        parse_day(DAY)


def test_chinese_memories_have_chinese_labels_categories_and_sentinel():
    assert parse_memories(f"{MEMORY}\n\n{MEMORY}", "zh")[1] == ("小安爱游泳。", "爱好", 2)
    assert parse_memories("没有可提取的关键信息。\n", "zh") == []
    for wrong, message in {
        MEMORY.replace("：", ": "): "not the three lines 记忆内容, 记忆类别, 记忆重要性",
        MEMORY.replace("爱好", "Hobbies"): "unknown memory category 'Hobbies'",
        "No key information extracted.": "not the three lines",
    }.items():
        with pytest.raises(ValueError, match=message):
            parse_memories(wrong, "zh")
    assert strip_scaffold(MEMORY) == "小安爱游泳。"


@pytest.mark.parametrize("text", ["没有可提取的关键信息。", "No key information extracted.", "未提取到关键信息。"])
def test_every_sentinel_is_recognized(text):
    assert is_sentinel(f" {text}\n")


def test_limits_are_those_of_the_records_language(chinese_records):
    reply = of(chinese_records, "DialogueBase")
    assert format_error(reply, "好" * 60) is None
    assert format_error(reply, "好" * 61) == "61 characters, the limit is 60"
    assert format_error(of(chinese_records, "ItineraryResponse"), "好。行。走。") == "more than two sentences"
    assert format_error(of(chinese_records, "ItineraryBasic"), "1、吃饭\n2、睡觉") == "a list, not prose"


def test_a_memory_has_a_category_of_its_records_language(chinese_records):
    record = next(record for record in chinese_records if record.memories and record.memories[0].category)
    memories = [memory.model_dump() | {"category": "Hobbies"} for memory in record.memories]
    with pytest.raises(ValueError, match="'Hobbies' is not a category of the language 'zh'"):
        Record.model_validate(record.model_dump() | {"memories": memories})


def test_languages_are_selected_in_the_tables_order():
    assert [language.code for language in select_languages("zh, en")] == ["en", "zh"]
    with pytest.raises(H2HTalkError, match="unknown language 'zhh'. The languages are: en, zh"):
        select_languages("en,zhh")
    with pytest.raises(H2HTalkError, match="no language named"):
        select_languages(",")
    with pytest.raises(H2HTalkError, match="unknown language"):
        language_of("")


@pytest.mark.parametrize("task", TASKS)
def test_chinese_records_load_with_chinese_prompts(task):
    rows = load(task, language="zh")
    assert all(row["language"] == "zh" and row["id"].startswith("zh-") for row in rows)
    row = rows[0]
    assert row["messages"] == render(row)
    system, user = (message["content"] for message in row["messages"])
    for text in (system, user):
        assert not re.search("[A-Za-z]{3,}", text.replace(row["persona"], "").replace("HH:MM", "").replace("MBTI", ""))
    assert system.count("\n\n") >= 2 and row["persona"].split("\n")[0] in system


def test_the_chinese_persona_has_the_same_seven_principles():
    row = load("DialogueBase", "zh")[0]
    parts = [render(row, sap={name})[0]["content"] for name in SAP]
    assert len(set(parts)) == 7
    assert len(render(row)[0]["content"]) > max(map(len, parts)) > len(render(row, sap=False)[0]["content"])


def test_a_prompt_states_the_limit_that_the_format_checks():
    for task, limits in ((task, task.limits) for task in TASKS.values() if task.limits):
        for code in LANGUAGES:
            if task.name != "RecollectionSynthesis":
                assert str(limits[code]) in load(task.name, code)[0]["messages"][0]["content"], (task.name, code)


def test_rows_of_two_languages_follow_each_other():
    rows = chosen_rows("DialogueBase,ItineraryMiddle", 2, "zh,en")
    assert [row["id"][:2] for row in rows] == ["en"] * 4 + ["zh"] * 4
    assert [row["task"] for row in rows[4:]] == ["DialogueBase"] * 2 + ["ItineraryMiddle"] * 2
    assert prompt_of(rows[-1], sap=True).max_new_tokens == TASKS["ItineraryMiddle"].max_new_tokens["zh"]


def test_an_unknown_language_is_one_line_and_exit_code_2(tmp_path):
    shown = h2htalk("generate", "--model", "demo", "--language", "fr", "--out", str(tmp_path / "run"))
    assert shown.returncode == 2
    assert shown.stderr == "error: unknown language 'fr'. The languages are: en, zh\n"
    assert not (tmp_path / "run").exists()
