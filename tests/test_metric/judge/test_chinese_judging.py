"""Chinese answers are judged with Chinese rubrics, a Chinese prompt and Chinese answers of known quality."""

import re

import pytest
from helpers.board_runs import make_run

from h2htalk_datasets import TASKS, load, render
from h2htalk_datasets.answer_format import format_error
from h2htalk_datasets.corpus.chinese import check_chinese
from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.prompts import render_user
from h2htalk_datasets.schema import Record
from h2htalk_metric.judge.ceilings import ceiling_scale
from h2htalk_metric.judge.drift import load_anchors
from h2htalk_metric.judge.judge_items import JUDGED_TASKS, judge_item, judge_items
from h2htalk_metric.judge.prompt import judging_messages, prompt_hash
from h2htalk_metric.judge.rubric import load_rubric
from h2htalk_metric.review.sampling import review_items, start_review
from h2htalk_metric.runs.run import Run

RUBRICS = [*TASKS, "SafetyHighRisk", "ChangedNeed"]


@pytest.mark.parametrize("name", RUBRICS)
def test_a_chinese_rubric_has_the_criteria_and_levels_of_the_english_one(name):
    english, chinese = load_rubric(name), load_rubric(name, "zh")
    parts = [[(one.name, list(one.levels)) for one in rubric.criteria] for rubric in (english, chinese)]
    assert parts[0] == parts[1]
    assert (english.language, chinese.language) == ("en", "zh") and english.hash != chinese.hash
    for criterion in chinese.criteria:
        assert all(re.search("[\u4e00-\u9fff]", text) for text in (criterion.question, *criterion.levels.values()))


@pytest.mark.parametrize("task", [task for task in TASKS.values() if task.limits], ids=lambda task: task.name)
def test_a_rubric_states_the_limit_of_its_task(task):
    for language, limit in task.limits.items():
        assert str(limit) in load_rubric(task.name, language).criteria[-1].levels[5]


def test_the_judging_prompt_is_chinese_for_a_chinese_record():
    record = load("DialogueBase", "zh")[0]
    item = judge_item(record, "好，记你的。")
    system, user = judging_messages(item.rubric, item.context, item.blocks, item_context=item.item_context)
    assert "你在评测陪伴模型" in system["content"] and "好的回答做到：" in system["content"]
    assert "You mark" not in system["content"] and "The code" not in user["content"]
    assert user["content"].count("<<<BEGIN ") == 3 and "给 ANSWER 打分" in user["content"]
    corrected = judging_messages(item.rubric, None, {"answer": "x"}, explain_first=True, correction="no JSON")
    assert "之前的回复不能用：no JSON" in corrected[1]["content"]
    assert prompt_hash() != prompt_hash("zh")


def test_the_chinese_anchors_agree_with_their_grades():
    anchors = load_anchors("zh", tuple(TASKS))
    assert len(anchors) == 18 and len(load_anchors("zh", JUDGED_TASKS)) == 9
    by_record: dict[str, dict[str, float]] = {}
    for anchor in anchors:
        names = {criterion.name for criterion in anchor.item.rubric.criteria}
        assert anchor.scores.keys() == names
        mean = sum(anchor.scores.values()) / len(names)
        by_record.setdefault(anchor.item.id.split("/")[0], {})[anchor.grade] = mean
        task = anchor.item.rubric.name
        record = next(row for row in load(task, "zh") if row["id"] == anchor.item.id.split("/")[0])
        error = format_error(Record.model_validate(record), anchor.item.blocks["answer"])
        assert (anchor.scores["keeps_form"] == 5) == (error is None), (anchor.item.id, error)
    assert all(grades["good"] > grades["middling"] > grades["bad"] for grades in by_record.values())
    with pytest.raises(H2HTalkError, match="no answers of known quality in the language 'de'"):
        load_anchors("de", ())


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return make_run(
        tmp_path_factory.mktemp("judged") / "run", "org/M", language="en,zh", tasks=",".join(JUDGED_TASKS), limit=3
    )


def test_each_answer_of_a_run_has_the_rubric_of_its_language(run):
    languages = {item.id[:2]: item.rubric.language for item in judge_items(Run(run))}
    assert languages == {"en": "en", "zh": "zh"}


def test_there_are_no_chinese_ceilings_yet(run):
    with pytest.raises(H2HTalkError, match="no reference ceilings in this language"):
        ceiling_scale(Run(run).by_language["zh"])


def test_people_review_one_language(run):
    items = review_items(Run(run).by_language["zh"], count=3)
    assert {item.id[:2] for item in items} == {"zh"}
    assert all(item.rubric.language == "zh" for item in items)
    with pytest.raises(H2HTalkError, match="has records in en and zh"):
        start_review(run, sample=3)


def test_a_simulated_user_speaks_chinese():
    brief = {
        "language": "zh",
        "companion": "陈立秋",
        "user": "邹雨桐",
        "persona": "两个人认识六年了。",
        "first": "想有人听她讲",
        "change": "妈妈来电话了",
        "then": "想知道怎么开口",
        "turn": 2,
        "history": [],
    }
    before, after = (render_user(brief, turn)[0]["content"] for turn in (1, 3))
    assert "想有人听她讲" in before and "怎么开口" not in before
    assert "后来情况变了：妈妈来电话了" in after and not re.search("[A-Za-z]{3,}", after)


@pytest.mark.parametrize(
    ("reference", "is_known"),
    [("先打12356，有人接。", True), ("打110。", True), ("打 4008123123 问问。", False), ("拨打120", True)],
)
def test_a_number_to_call_is_a_reviewed_helpline(chinese_records, reference, is_known):
    record = chinese_records[0].model_copy(update={"reference": reference, "alternatives": []})
    (check,) = [check for check in check_chinese([record], partial=True) if "helpline" in check.rule]
    assert check.passed == is_known


def test_the_probe_prompt_is_chinese():
    from h2htalk_datasets.prompts import render_probe

    record = load("DialogueBase", "zh")[0]
    system, user = render_probe(record | {"probe": "SafetyHighRisk"})
    assert "最多120个字" in system["content"] and user["content"].endswith("你的回复：")
    assert render(record)[0]["content"] != system["content"]
