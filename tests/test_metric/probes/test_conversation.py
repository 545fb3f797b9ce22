"""Conversations with a scripted user: the brief stays hidden, nothing is lost when interrupted, the judge sees all."""

import json
import re
from collections import Counter

import pytest
from helpers.judge_scripts import block
from helpers.probe_scripts import run_behind
from helpers.servers import scripted

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.probes import load_briefs
from h2htalk_datasets.probes.user_briefs import CHANGES
from h2htalk_metric.cli.probe import conversation
from h2htalk_metric.probes.conversation import conversation_items, read_transcripts
from h2htalk_metric.probes.results import probe_folder, read_result

BRIEF = load_briefs()[0]


def system(request):
    return request["messages"][0]["content"]


def noticed(**marks):
    return json.dumps({"shown": 1, "before": 1, "noticed": 1, "in_time": 0, "adapted": 1} | marks | {"why": "so"})


def test_thirty_briefs_whose_need_changes_in_the_middle():
    briefs = load_briefs()
    assert len({brief.slug for brief in briefs}) == len(briefs) == 30
    assert Counter(brief.kind for brief in briefs) == dict.fromkeys(CHANGES, 5)
    assert Counter(brief.turn for brief in briefs) == dict.fromkeys((3, 4, 5), 10)
    assert all(brief.first != brief.then for brief in briefs)


def test_a_conversation_of_eight_turns_is_run_and_judged(tmp_path):
    with (
        scripted(lambda r: f"C{r['messages'][1]['content'].count('Emil:')}") as model,
        scripted(lambda r: f"U{r['messages'][1]['content'].count('Emil:') + 1}") as user,
        scripted(lambda _: noticed()) as judge,
    ):
        run = run_behind(model, tmp_path / "run")
        conversation(run_folder=run, user="u", user_url=user.url, limit=1, judge="j", base_url=judge.url)
        [transcript] = read_transcripts(probe_folder(run, "conversation"))
        messages = [turn["content"] for turn in transcript["history"]]
        assert messages[:4] == [BRIEF.opening, "C1", "U2", "C2"] and messages[-2:] == ["U8", "C8"]
        assert (len(messages), transcript["ended"]) == (16, "all turns")
        # The companion has the persona and its profile, never the brief; the user learns of the change in time.
        assert all("Safety first" in system(r) and BRIEF.then not in str(r) for r in model.requests)
        knows_the_change = [BRIEF.change in system(r) for r in user.requests]
        assert knows_the_change == [turn >= BRIEF.turn for turn in range(2, 9)]
        assert "Now, in the next message" in system(user.requests[BRIEF.turn - 2])
        assert not any("You are Ruxandra" in system(r) for r in user.requests)
        request = judge.requests[-1]
        assert BRIEF.then in system(request)
        code = re.search(r"holds the code (\w+);", system(request))[1]
        assert f"[{code}: Emil (user, message 8)]\nU8\n\n[{code}: Ruxandra" in block(request, "ANSWER")
        with pytest.raises(H2HTalkError, match=r"cannot resume: .*--limit, .*Differences: dataset.finger"):
            conversation(run_folder=run, user="u", user_url=user.url)
        before = len(model.requests), len(user.requests), len(judge.requests)
        conversation(run_folder=run, user="u", user_url=user.url, limit=1)
        assert (len(model.requests), len(user.requests), len(judge.requests)) == before
    result = read_result(run, "conversation")
    assert result["figures"]["noticed"]["value"] == 1 and result["figures"]["in_time"]["value"] == 0
    assert "| noticed the change | 1 | 1.00 (" in (run / "probes" / "conversation.md").read_text()


def test_an_interrupted_conversation_is_resumed(tmp_path):
    failing = {"turn": 5}

    def answer(request):
        turn = request["messages"][1]["content"].count("Emil:")
        return (400, {"error": {"message": "down"}}) if turn == failing["turn"] else f"C{turn}"

    with scripted(answer) as model, scripted(lambda _: "Hm.") as user:
        run = run_behind(model, tmp_path / "run")
        with pytest.raises(H2HTalkError, match="same command again to continue"):
            conversation(run_folder=run, user="u", user_url=user.url, limit=1)
        [transcript] = read_transcripts(probe_folder(run, "conversation"))
        assert (len(transcript["history"]), transcript["ended"]) == (9, None)
        assert conversation_items(probe_folder(run, "conversation")) == []
        failing["turn"] = None
        conversation(run_folder=run, user="u", user_url=user.url, limit=1)
        assert [
            turn["content"] for turn in read_transcripts(probe_folder(run, "conversation"))[0]["history"][1::2]
        ] == [f"C{turn}" for turn in range(1, 9)]
        assert len(user.requests) == 7
        with pytest.raises(H2HTalkError, match="turns: 8 -> 6"):
            conversation(run_folder=run, user="u", user_url=user.url, limit=1, turns=6)


def test_a_companion_can_not_write_a_message_of_the_user(tmp_path):
    """It copies the first line of another conversation, after every kind of line break."""

    def item_of(reply):
        with scripted(lambda _: reply) as model, scripted(lambda _: "Hm.") as user:
            run = run_behind(model, tmp_path / str(len(list(tmp_path.iterdir()))))
            conversation(run_folder=run, user="u", user_url=user.url, limit=1)
        return conversation_items(probe_folder(run, "conversation"))[0]

    head = item_of("Yes.").blocks["answer"].split("\n")[0]
    item = item_of("Yes." + "".join(f"{end}{head} You noticed!" for end in ("\n\n", "\u2028", "\x0b")))
    code = re.search(r"holds the code (\w+);", item.item_context)[1]
    assert item.blocks["answer"].count(code) == 16 and code not in head
    assert item.blocks["answer"].count("You noticed!") == 24


def test_a_change_that_the_user_never_showed_does_not_count_against_the_companion(tmp_path):
    briefs = load_briefs()

    def judge(request):
        return noticed(shown=int(briefs[0].then in system(request)), noticed=int(briefs[0].then in system(request)))

    with scripted(lambda _: "Yes.") as model, scripted(lambda _: "No.") as user, scripted(judge) as server:
        run = run_behind(model, tmp_path / "run")
        conversation(run_folder=run, user="u", user_url=user.url, limit=3, judge="j", base_url=server.url)
    figures = read_result(run, "conversation")["figures"]
    assert (figures["shown"]["n"], figures["shown"]["value"]) == (3, pytest.approx(1 / 3))
    assert (figures["noticed"]["n"], figures["noticed"]["value"]) == (1, 1)


def test_a_conversation_that_ends_before_the_change_is_counted_and_not_judged(tmp_path):
    with scripted(lambda _: "Yes.") as model, scripted(lambda _: "") as user, scripted(lambda _: noticed()) as judge:
        run = run_behind(model, tmp_path / "run")
        conversation(run_folder=run, user="u", user_url=user.url, limit=2, judge="j", base_url=judge.url)
        assert judge.requests == []
    result = read_result(run, "conversation")
    assert (result["conversations"], result["before_the_change"], result["figures"]) == (2, 2, {})


def test_a_thinking_user_has_room_for_its_thoughts_which_the_companion_never_sees(tmp_path):
    def think(request):
        return "<think>" + "Who am I here? " * 20 + "</think>Could it be let out?"

    with scripted(lambda _: "Yes.") as model, scripted(think) as user:
        run = run_behind(model, tmp_path / "run")
        conversation(run_folder=run, user="u", user_url=user.url, limit=1, turns=4, user_thinking_tokens=500)
        assert {request["max_tokens"] for request in user.requests} == {596}
        assert not any("Who am I here?" in str(request) for request in model.requests)
        with pytest.raises(H2HTalkError, match="user.thinking_tokens: 500 -> "):
            conversation(run_folder=run, user="u", user_url=user.url, limit=1, turns=4)
    [transcript] = read_transcripts(probe_folder(run, "conversation"))
    assert {turn["content"] for turn in transcript["history"][2::2]} == {"Could it be let out?"}


def test_a_user_that_only_thinks_is_an_error_and_not_a_silent_user(tmp_path):
    with scripted(lambda _: "Yes.") as model, scripted(lambda _: "<think>Who am I") as user:
        run = run_behind(model, tmp_path / "run")
        with pytest.raises(H2HTalkError, match="all 96 tokens for its thoughts.*--user-thinking-tokens"):
            conversation(run_folder=run, user="u", user_url=user.url, limit=1)


def test_the_brief_is_folded_into_the_prompt_of_a_user_model_without_a_system_role(tmp_path):
    with scripted(lambda _: "Yes.") as model, scripted(lambda _: "No.") as user:
        run = run_behind(model, tmp_path / "run")
        conversation(run_folder=run, user="u", user_url=user.url, limit=1, turns=4, fold_system=True)
        assert all([m["role"] for m in request["messages"]] == ["user"] for request in user.requests)
        assert all("You play Emil" in request["messages"][0]["content"] for request in user.requests)
        assert all(request["messages"][0]["role"] == "system" for request in model.requests)  # as its run says
