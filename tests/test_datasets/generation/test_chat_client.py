"""The client of OpenAI-compatible servers: retries, bounds, reasons, and keys that go nowhere."""

import asyncio
import gc
import itertools
import logging
import re
import threading
import time
from email.utils import formatdate

import pytest
from helpers.servers import FAULTS, completion, faulty, nobody, scripted, trickling

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.generation import chat_client as chat_api
from h2htalk_datasets.generation.chat_client import ChatAPI, NoReply, as_they_land, public_url

ASK = [{"role": "user", "content": "hello"}]


def ask(api, **body):
    return next(as_they_land([api.complete(ASK, **body)], 1))


@pytest.fixture(autouse=True)
def no_key(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)


def test_a_reply_with_its_counts():
    with scripted(lambda request: "good evening to you") as server:
        reply = ask(ChatAPI("m", server.url), temperature=0, max_tokens=7)
    assert (reply.text, reply.finish_reason, reply.prompt_tokens, reply.new_tokens) == (
        "good evening to you",
        "stop",
        11,
        4,
    )
    assert server.asked == [{"model": "m", "messages": ASK, "temperature": 0, "max_tokens": 7}]


def test_half_a_character_can_be_written_down():
    with scripted(lambda request: "a\ud800b \ud83d\ude00") as server:
        assert ask(ChatAPI("m", server.url)).text == "a\ufffdb \U0001f600"


def test_thoughts_kept_apart_by_the_server():
    body = completion("yes")
    body["choices"][0]["message"]["reasoning_content"] = "let me see"
    with scripted(lambda request: body) as server:
        assert ask(ChatAPI("m", server.url)).reasoning == "let me see"


@pytest.mark.parametrize(("sent", "kept"), [("and so\ud83d", "and so\ufffd"), (["a", "list"], None)])
def test_thoughts_that_could_not_be_written_down_cost_no_answer(sent, kept):
    body = completion("yes")
    body["choices"][0]["message"]["reasoning_content"] = sent
    with scripted(lambda request: body) as server:
        reply = ask(ChatAPI("m", server.url))
    assert (reply.text, reply.reasoning) == ("yes", kept)


def test_a_third_of_calls_spoiled_and_every_answer_arrives():
    with scripted(lambda r: f"echo {r['messages'][0]['content']}") as server, faulty(server.url, 0.33, seed=4) as proxy:
        api = ChatAPI("m", proxy.url, timeout=1.0, retries=8)

        async def one(number):
            return number, (await api.complete([{"role": "user", "content": str(number)}])).text

        said = dict(as_they_land((one(n) for n in range(60)), 16))
    assert said == {n: f"echo {n}" for n in range(60)}
    assert set(proxy.faults) == set(FAULTS)  # each kind was met


@pytest.mark.parametrize("status", [400, 500])
def test_a_refusal_is_a_reason(status):
    refusal = (status, {"error": {"message": "the prompt is too long"}})
    with scripted(lambda r: refusal) as server, pytest.raises(NoReply, match="the prompt is too long"):
        ask(ChatAPI("m", server.url, retries=1))
    assert len(server.asked) == {400: 1, 500: 2}[status]  # only what may pass is tried again


def test_a_refusal_of_another_shape_is_a_reason_too():
    said, shown = {"detail": [{"loc": ["body", "n"]}]}, r"Error code: 422 - .*'loc': \['body', 'n'\]"
    with scripted(lambda r: (422, said)) as server, pytest.raises(NoReply, match=shown):
        ask(ChatAPI("m", server.url))


def test_what_no_completion_is_is_kept_raw():
    with scripted(lambda r: {"choices": []}) as server, pytest.raises(NoReply, match="no chat completion") as error:
        ask(ChatAPI("m", server.url, retries=1))
    assert error.value.raw == '{"choices": []}'
    assert len(server.asked) == 2


def test_a_reply_that_quotes_the_key_is_kept_without_it(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    # The second quotation would be cut in two where what is kept ends.
    said = {"you sent": "sk-very-secret", "and": "x" * 1956 + "sk-very-secret"}
    with scripted(lambda r: said) as server, pytest.raises(NoReply) as error:
        ask(ChatAPI("m", server.url, retries=0))
    assert '{"you sent": "***"' in error.value.raw and "sk-" not in error.value.raw
    assert len(error.value.raw) <= 2000


def test_faults_of_several_kinds_share_one_count_and_each_wait_is_said(monkeypatch, capfd):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    replies = itertools.cycle([(500, {"error": {"message": "sk-very-secret is \x1b[31minside"}}), {"choices": []}])
    with scripted(lambda r: next(replies)) as server, pytest.raises(NoReply, match="inside"):
        ask(ChatAPI("m", server.url, retries=2))
    assert len(server.asked) == 3
    first, second = capfd.readouterr().err.splitlines()
    assert first.startswith(f"{server.url}: Error code: 500") and "; try 2 of 3 in 0." in first
    assert second.startswith(f"{server.url}: the server's reply is no chat completion; try 3 of 3 in 1.")
    assert "secret" not in first and "\x1b" not in first


def test_a_server_that_trickles_is_timed_out():
    begun = time.monotonic()
    with trickling(30) as server, pytest.raises(H2HTalkError, match=r"no answer .*no whole reply within 2 s"):
        ask(ChatAPI("m", server.url, timeout=2.0, retries=1))
    assert len(server.asked) == 2
    assert time.monotonic() - begun < 25  # a single reply would take thirty


def test_a_server_that_never_answered_is_given_up_after_three_tries(capfd):
    with nobody() as url, pytest.raises(H2HTalkError) as error:
        ask(ChatAPI("m", url))
    said = rf"no answer from {url} \(.*\); see that the server runs, or raise --timeout"
    assert re.fullmatch(said, str(error.value))
    assert [line.split("; ")[-1][:10] for line in capfd.readouterr().err.splitlines()] == ["try 2 of 7", "try 3 of 7"]


def test_a_call_has_an_end_though_the_server_is_there(monkeypatch):
    monkeypatch.setattr(chat_api, "_PATIENCE", 3.0)
    with scripted(lambda r: (503, {"error": {"message": "busy"}})) as server, pytest.raises(NoReply, match="busy"):
        ask(ChatAPI("m", server.url, retries=1000))
    assert 2 <= len(server.asked) <= 3  # at once, after half a second, and after a whole one if the machine is not slow


def test_a_server_that_is_gone_ends_all_after_three_calls(capfd):
    with scripted(lambda r: (200, completion("here"), {"Connection": "close"})) as server:
        api = ChatAPI("m", server.url, retries=0)
        assert ask(api).text == "here"
    for _ in range(2):  # it is not there any more
        with pytest.raises(NoReply):
            ask(api)
    with pytest.raises(H2HTalkError, match=rf"lost {server.url} \(.*\); what it answered is kept"):
        ask(api)


def busy(seconds):
    return 429, {"error": {"message": "slow down"}}, {"Retry-After": seconds}


def test_a_long_wait_is_waited(monkeypatch):
    waits = []

    async def sleep(seconds):
        waits.append(seconds)

    monkeypatch.setattr(chat_api.asyncio, "sleep", sleep)
    replies = iter([busy("150"), "here"])
    with scripted(lambda r: next(replies)) as server:
        assert ask(ChatAPI("m", server.url)).text == "here"
    assert len(waits) == 1 and 150 <= waits[0] <= 187.5


def test_a_wait_that_is_too_long_is_the_reason():
    with scripted(lambda r: busy("3600")) as server, pytest.raises(NoReply, match="slow down.* asks to wait 3600 s"):
        ask(ChatAPI("m", server.url))
    assert len(server.asked) == 1


def test_a_wait_may_be_a_date():
    date = formatdate(time.time() + 90, usegmt=True)
    assert chat_api._retry_after({"retry-after": date}) == pytest.approx(90, abs=30)
    assert [chat_api._retry_after({"retry-after": said}) for said in ("2.5", "-3", "nan", "soon", "")] == [
        2.5,
        0,
        0,
        0,
        0,
    ]
    assert chat_api._retry_after({}) == 0


def test_a_field_with_too_much_in_it_is_no_refused_field():
    said = "'max_tokens' or 'max_completion_tokens' is too large: 9000. The maximum context length is 8192 tokens."
    with scripted(lambda r: (400, {"error": {"message": said}})) as server, pytest.raises(NoReply, match="too large"):
        ask(ChatAPI("m", server.url), max_tokens=9000)
    assert len(server.asked) == 1


def test_a_wrong_key_or_model_ends_all_in_one_line(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    refusal = {"error": {"message": "Incorrect API key provided: sk-very-secret"}}
    for status, match in ((401, "refuses the key; set OPENAI_API_KEY"), (404, "knows no model 'm'")):
        with scripted(lambda r, s=status: (s, refusal)) as server, pytest.raises(H2HTalkError, match=match) as error:
            ask(ChatAPI("m", server.url))
        assert "secret" not in str(error.value)
        assert server.headers[0]["authorization"] == "Bearer sk-very-secret"


def test_a_key_with_a_lines_end_is_the_key_and_an_impossible_one_is_not_shown(monkeypatch, capfd):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret\r\n")
    with scripted(lambda request: "yes") as server:
        assert ask(ChatAPI("m", server.url)).text == "yes"
    monkeypatch.setenv("OPENAI_API_KEY", "sk-sec\nret")
    with pytest.raises(H2HTalkError, match="OPENAI_API_KEY holds characters that no key has") as refused:
        ChatAPI("m", server.url)
    assert "sk-sec" not in str(refused.value) + "".join(capfd.readouterr())


def test_no_key_for_openai_itself():
    with pytest.raises(H2HTalkError, match="set OPENAI_API_KEY"):
        ChatAPI("gpt-4o")


def test_no_address_is_taken_from_the_environment(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://elsewhere/v1")
    api = ChatAPI("gpt-4o")
    assert str(api._client.base_url).rstrip("/") == api.url == "https://api.openai.com/v1"


def test_addresses_lose_their_secrets():
    assert public_url("https://me:word@host:81/v1?key=1") == "https://host:81/v1"
    with pytest.raises(H2HTalkError, match="--base-url must look like"):
        public_url("localhost:8000")


def test_in_flight_is_bounded_and_jobs_are_taken_late():
    lock, now, most, taken = threading.Lock(), [0], [0], []

    async def job(number):
        with lock:
            now[0] += 1
            most[0] = max(most[0], now[0])
        await asyncio.sleep(0.1)
        with lock:
            now[0] -= 1
        return number

    def jobs():
        for number in range(20):
            taken.append(number)
            yield job(number)

    landing = as_they_land(jobs(), 4)
    first = next(landing)
    assert len(taken) <= 4
    assert sorted([first, *landing]) == list(range(20))
    assert most[0] == 4


def test_an_exception_ends_all_and_cancels_the_rest():
    ended = []

    async def slow():
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            ended.append(True)
            raise

    async def breaks():
        raise H2HTalkError("no")

    start = time.monotonic()
    with pytest.raises(H2HTalkError, match="no"):
        list(as_they_land([slow(), breaks()], 2))
    while not ended and time.monotonic() - start < 10:
        time.sleep(0.01)
    assert ended and time.monotonic() - start < 10


def test_what_has_landed_is_not_lost_to_an_exception():
    over = []

    async def job(number):
        await asyncio.sleep(0.2 if number else 0)
        over.append(number)
        if number == 1:
            raise H2HTalkError("no")
        return number

    landing = as_they_land((job(number) for number in range(6)), 8)
    said = [next(landing)]
    while len(over) < 6:  # as with a slow disk: all others land meanwhile
        time.sleep(0.1)
    time.sleep(0.2)
    with pytest.raises(H2HTalkError, match="no"):
        said.extend(landing)
    assert sorted(said) == [0, 2, 3, 4, 5]


def test_of_jobs_that_fail_together_one_is_told(caplog):
    async def breaks(number):
        raise H2HTalkError(f"no {number}")

    for _ in range(200):
        with pytest.raises(H2HTalkError, match=r"no \d"):
            list(as_they_land((breaks(number) for number in range(8)), 8))
    gc.collect()
    assert [record.message for record in caplog.records if record.levelno >= logging.ERROR] == []


def test_works_where_a_loop_is_running():
    async def inside():
        with scripted(lambda r: "here") as server:
            return ask(ChatAPI("m", server.url)).text

    assert asyncio.run(inside()) == "here"
