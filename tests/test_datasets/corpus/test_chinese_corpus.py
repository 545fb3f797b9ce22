"""The checks of Chinese records, each shown to be able to fail; they hold for any number of relationships."""

import json

import pytest

from h2htalk_datasets import TASKS
from h2htalk_datasets.corpus.build import DATA, build
from h2htalk_datasets.corpus.checks import check_corpus, check_records, check_references
from h2htalk_datasets.corpus.chinese import check_chinese, chinese_names, commands
from h2htalk_datasets.corpus.sources import load_cast, source_files


def test_every_check_passes():
    _, checks = check_corpus(source_files(language="zh"), partial=False, language="zh")
    assert not {check.rule: check.offenders for check in checks if not check.passed}


def test_the_cast_has_fifty_rows_and_table_1():
    cast = load_cast("zh")
    assert [row.number for row in cast] == list(range(1, 51))
    assert len({row.slug for row in cast}) == 50
    assert sum(row.romantic for row in cast) <= 50 / 3
    assert {task: sum(row.quota()[task] for row in cast) for task in TASKS} == {
        task.name: task.count for task in TASKS.values()
    }


def test_the_build_gives_the_shipped_data(tmp_path):
    build(tmp_path, language="zh")
    committed = json.loads((DATA / "zh" / "manifest.json").read_text())
    assert json.loads((tmp_path / "zh" / "manifest.json").read_text()) == committed
    files = sorted(file.name for file in (DATA / "zh").iterdir())
    assert files == sorted([*(f"{task}.parquet" for task in TASKS), "manifest.json"])


def replaced(records, number=1, **changes):
    """The records of DialogueBase, the first ones with changed columns."""
    base = [record for record in records if record.task == "DialogueBase"]
    return [record.model_copy(update=changes) for record in base[:number]] + base[number:]


REPLY = "他把那只搪瓷缸子捧在手里，没说话。"


@pytest.mark.parametrize(
    ("rule", "change"),
    [
        ("no five characters", lambda r: replaced(r, 2, reference=REPLY)),
        (
            "no eight characters",
            lambda r: [
                *replaced(r, reference=REPLY),
                r[0].model_copy(update={"relationship": "b", "reference": REPLY}),
            ],
        ),
        ("full-width", lambda r: replaced(r, reference="好,我晓得。")),
        ("no 不是……而是", lambda r: replaced(r, reference="这不是你的错，而是他的。")),
        ("no line break", lambda r: replaced(r, reference="好。\n行。")),
        ("sentinel once or twice", lambda r: [x for x in r if "没有可提取" not in x.reference]),
        ("under 30 characters", lambda r: replaced(r, 37, reference="好" * 31)),
        ("uses a memory", lambda r: replaced(r, 37, memories=[])),
        ("ends in a question", lambda r: replaced(r, 20, reference="睡了？”")),
        ("has a question", lambda r: replaced(r, 37, reference="好。")),
        ("names the user", lambda r: replaced(r, 20, reference=f"{r[0].user[1:]}，好。")),
        ("gesture", lambda r: replaced(r, 20, reference="（笑）好。")),
        ("has a command", lambda r: replaced(r, 20, reference="别哭了，睡吧。")),
        ("most common opening", lambda r: replaced(r, 5, reference="哎呀呀，好。")),
    ],
)
def test_each_check_can_fail(chinese_records, rule, change):
    (check,) = [check for check in check_chinese(change(chinese_records), partial=True) if rule in check.rule]
    assert not check.passed


def test_an_activity_may_occur_three_times(chinese_records):
    middle = [record for record in chinese_records if record.task == "ItineraryMiddle"]
    same = [record.model_copy(update={"reference": "08:00 去菜场买豆腐"}) for record in middle]
    check = next(check for check in check_chinese(same, partial=True) if "ItineraryMiddle" in check.rule)
    assert check.offenders == [f"{middle[0].relationship}: '去菜场买豆腐' {len(same)} times"]


def test_a_complete_corpus_needs_long_histories(chinese_records):
    short = replaced(chinese_records, 37, history=chinese_records[0].history[-1:])
    rules = [check for check in check_chinese(short, partial=False) if "6 turns" in check.rule]
    assert not rules[0].passed


def test_a_name_that_the_prompt_lacks_is_an_offender(chinese_records):
    records = replaced(chinese_records, reference="许姐昨天也这么说，老万听见了。")
    check = next(check for check in check_records(records, "zh") if check.rule.startswith("names"))
    assert check.offenders == [f"{records[0].relationship}: {records[0].id}: not in the prompt: 许姐"]


def test_names_have_a_title_or_a_prefix():
    assert chinese_names("老万和小付问高姐，陈老师老高兴了，老是笑，小时候也这样。") == [
        "老万",
        "小付",
        "高姐",
        "陈老师",
    ]


def test_commands_begin_like_one_or_are_a_short_clause_with_ba():
    assert commands("那你先别急，睡吧。别的事我来问，好吧？是吧。去了一趟。") == ["那你先别急，", "睡吧。"]


def test_stock_phrases_and_openings_are_those_of_the_language():
    texts = {
        "DialogueBase": ["抱抱你，别想太多。", *(f"我昨天在菜场买了{what}。" for what in ("豆腐", "冬瓜", "粉条"))]
    }
    failed = {check.rule for check in check_references(texts, "zh") if not check.passed}
    assert {"stock phrases", "DialogueBase: most common opening"} <= failed
    assert "stock phrases" not in {check.rule for check in check_references(texts) if not check.passed}


def test_the_card_says_how_many_relationships_stand():
    records = sum(json.loads((DATA / "zh" / "manifest.json").read_text())["counts"].values())
    card = (DATA.parent / "README.md").read_text("utf-8")
    relationships = len(source_files(language="zh"))
    assert f"now {relationships} of fifty relationships ({records:,} records)" in card or relationships == 50
