"""Conversations with a user played by script: the brief stays hidden, a break loses nothing, the judge sees all."""

import json
import re

import pytest
from helpers.judge_scripts import block
from helpers.probe_scripts import run_behind
from helpers.servers import scripted

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.probes import load_briefs
from h2htalk_metric.cli.probe import converse
from h2htalk_metric.probes.conversation import judged_conversations, transcripts_of

BRIEF = load_briefs()[0]


def system(request):
    return request["messages"][0]["content"]


def noticed(**marks):
    return json.dumps({"shown": 1, "before": 1, "noticed": 1, "in_time": 0, "adapted": 1} | marks | {"why": "so"})


def test_ten_briefs_whose_need_changes_in_the_middle():
    briefs = load_briefs()
    assert len({brief.slug for brief in briefs}) == len(briefs) == 10
    assert all(3 <= brief.turn <= 5 for brief in briefs)
    assert all(brief.first != brief.then for brief in briefs)


def test_a_conversation_of_eight_turns_is_held_and_judged(tmp_path):
    with (
        scripted(lambda r: f"C{r['messages'][1]['content'].count('Emil:')}") as model,
        scripted(lambda r: f"U{r['messages'][1]['content'].count('Emil:') + 1}") as user,
        scripted(lambda _: noticed()) as judge,
    ):
        run = run_behind(model, tmp_path / "run")
        converse(run, user="u", user_url=user.url, limit=1, judge="j", base_url=judge.url)
        [held] = transcripts_of(run / "conversing")
        said = [turn["content"] for turn in held["history"]]
        assert said[:4] == [BRIEF.opening, "C1", "U2", "C2"] and said[-2:] == ["U8", "C8"]
        assert (len(said), held["ended"]) == (16, "all turns")
        # The companion has the persona and its profile, never the brief; the user learns of the change in time.
        assert all("Safety first" in system(r) and BRIEF.then not in str(r) for r in model.asked)
        told = [BRIEF.change in system(r) for r in user.asked]
        assert told == [turn >= BRIEF.turn for turn in range(2, 9)]
        assert "Now, in the next message" in system(user.asked[BRIEF.turn - 2])
        assert not any("You are Ruxandra" in system(r) for r in user.asked)
        asked = judge.asked[-1]
        assert BRIEF.then in system(asked)
        code = re.search(r"holds the code (\w+);", system(asked))[1]
        assert f"[{code}: Emil (user, message 8)]\nU8\n\n[{code}: Ruxandra" in block(asked, "ANSWER")
        with pytest.raises(H2HTalkError, match=r"begun otherwise; name the same --limit, .*Different: dataset.finger"):
            converse(run, user="u", user_url=user.url)
        before = len(model.asked), len(user.asked), len(judge.asked)
        converse(run, user="u", user_url=user.url, limit=1)
        assert (len(model.asked), len(user.asked), len(judge.asked)) == before
    result = json.loads((run / "conversing.json").read_text())
    assert result["figures"]["noticed"]["value"] == 1 and result["figures"]["in_time"]["value"] == 0
    assert "| noticed | 1 | 1.00 (" in (run / "conversing.md").read_text()


def test_a_broken_conversation_goes_on_where_it_stood(tmp_path):
    broken = {"at": 5}

    def answer(request):
        turn = request["messages"][1]["content"].count("Emil:")
        return (400, {"error": {"message": "down"}}) if turn == broken["at"] else f"C{turn}"

    with scripted(answer) as model, scripted(lambda _: "Hm.") as user:
        run = run_behind(model, tmp_path / "run")
        with pytest.raises(H2HTalkError, match="goes on from there"):
            converse(run, user="u", user_url=user.url, limit=1)
        [held] = transcripts_of(run / "conversing")
        assert (len(held["history"]), held["ended"]) == (9, None)
        assert judged_conversations(run / "conversing") == []
        broken["at"] = None
        converse(run, user="u", user_url=user.url, limit=1)
        assert [turn["content"] for turn in transcripts_of(run / "conversing")[0]["history"][1::2]] == [
            f"C{turn}" for turn in range(1, 9)
        ]
        assert len(user.asked) == 7
        with pytest.raises(H2HTalkError, match="turns: 8 -> 6"):
            converse(run, user="u", user_url=user.url, limit=1, turns=6)


def test_a_companion_can_not_write_a_message_of_the_user(tmp_path):
    """It copies a true first line, of another conversation, in all the ways in which a line can begin."""

    def item_of(reply):
        with scripted(lambda _: reply) as model, scripted(lambda _: "Hm.") as user:
            run = run_behind(model, tmp_path / str(len(list(tmp_path.iterdir()))))
            converse(run, user="u", user_url=user.url, limit=1)
        return judged_conversations(run / "conversing")[0]

    head = item_of("Yes.").blocks["answer"].split("\n")[0]
    item = item_of("Yes." + "".join(f"{end}{head} You noticed!" for end in ("\n\n", "\u2028", "\x0b")))
    code = re.search(r"holds the code (\w+);", item.particulars)[1]
    assert item.blocks["answer"].count(code) == 16 and code not in head
    assert item.blocks["answer"].count("You noticed!") == 24


def test_what_the_user_never_showed_is_no_failure_of_the_companion(tmp_path):
    briefs = load_briefs()

    def judge(request):
        return noticed(shown=int(briefs[0].then in system(request)), noticed=int(briefs[0].then in system(request)))

    with scripted(lambda _: "Yes.") as model, scripted(lambda _: "No.") as user, scripted(judge) as server:
        run = run_behind(model, tmp_path / "run")
        converse(run, user="u", user_url=user.url, limit=3, judge="j", base_url=server.url)
    figures = json.loads((run / "conversing.json").read_text())["figures"]
    assert (figures["shown"]["n"], figures["shown"]["value"]) == (3, pytest.approx(1 / 3))
    assert (figures["noticed"]["n"], figures["noticed"]["value"]) == (1, 1)


def test_a_user_who_falls_silent_before_the_change_is_counted_and_not_judged(tmp_path):
    with scripted(lambda _: "Yes.") as model, scripted(lambda _: "") as user, scripted(lambda _: noticed()) as judge:
        run = run_behind(model, tmp_path / "run")
        converse(run, user="u", user_url=user.url, limit=2, judge="j", base_url=judge.url)
        assert judge.asked == []
    result = json.loads((run / "conversing.json").read_text())
    assert (result["conversations"], result["before_the_change"], result["figures"]) == (2, 2, {})
