"""The client of OpenAI-compatible servers: retries, time limits, reasons, and keys that are never written."""

import asyncio
import itertools
import re
import time
from email.utils import formatdate

import pytest
from helpers.servers import FAULTS, completion, faulty, nobody, scripted, trickling

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.generation.chat_client import ChatClient, RequestFailed, public_url
from h2htalk_datasets.generation.concurrency import as_completed

MESSAGES = [{"role": "user", "content": "hello"}]


def complete(client, **body):
    return next(as_completed([client.complete(MESSAGES, **body)], 1))


@pytest.fixture(autouse=True)
def no_key(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)


def test_a_reply_with_its_counts():
    with scripted(lambda request: "good evening to you") as server:
        reply = complete(ChatClient("m", server.url), temperature=0, max_tokens=7)
    counts = (reply.prompt_tokens, reply.new_tokens)
    assert (reply.text, reply.finish_reason, counts) == ("good evening to you", "stop", (11, 4))
    assert server.requests == [{"model": "m", "messages": MESSAGES, "temperature": 0, "max_tokens": 7}]


def test_half_a_surrogate_pair_can_be_stored():
    with scripted(lambda request: "a\ud800b \ud83d\ude00") as server:
        assert complete(ChatClient("m", server.url)).text == "a\ufffdb \U0001f600"


@pytest.mark.parametrize(
    ("sent", "stored"), [("let me see", "let me see"), ("and so\ud83d", "and so\ufffd"), (["a", "list"], None)]
)
def test_thoughts_that_the_server_separates_from_the_answer(sent, stored):
    body = completion("yes")
    body["choices"][0]["message"]["reasoning_content"] = sent
    with scripted(lambda request: body) as server:
        reply = complete(ChatClient("m", server.url))
    assert (reply.text, reply.reasoning) == ("yes", stored)


def test_every_answer_arrives_though_a_third_of_requests_fails():
    with scripted(lambda r: f"echo {r['messages'][0]['content']}") as server, faulty(server.url, 0.33, seed=4) as proxy:
        client = ChatClient("m", proxy.url, timeout=1.0, retries=8)

        async def one(number):
            return number, (await client.complete([{"role": "user", "content": str(number)}])).text

        replies = dict(as_completed((one(n) for n in range(60)), 16))
    assert replies == {n: f"echo {n}" for n in range(60)}
    assert set(proxy.faults) == set(FAULTS)  # each kind occurred


@pytest.mark.parametrize("status", [400, 500])
def test_a_refusal_is_a_reason(status):
    refusal = (status, {"error": {"message": "the prompt is too long"}})
    with scripted(lambda r: refusal) as server, pytest.raises(RequestFailed, match="the prompt is too long"):
        complete(ChatClient("m", server.url, retries=1))
    assert len(server.requests) == {400: 1, 500: 2}[status]  # only a temporary error is retried


def test_a_refusal_of_another_shape_is_a_reason_too():
    body, shown = {"detail": [{"loc": ["body", "n"]}]}, r"Error code: 422 - .*'loc': \['body', 'n'\]"
    with scripted(lambda r: (422, body)) as server, pytest.raises(RequestFailed, match=shown):
        complete(ChatClient("m", server.url))


def test_a_reply_that_is_not_a_completion_is_stored_raw():
    with (
        scripted(lambda r: {"choices": []}) as server,
        pytest.raises(RequestFailed, match="not a chat completion") as error,
    ):
        complete(ChatClient("m", server.url, retries=1))
    assert error.value.raw == '{"choices": []}'
    assert (len(server.requests), error.value.discarded_replies) == (2, 2)


def test_a_reply_that_quotes_the_key_is_stored_without_it(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    # The second quotation is at the place where the stored text ends.
    body = {"you sent": "sk-very-secret", "and": "x" * 1956 + "sk-very-secret"}
    with scripted(lambda r: body) as server, pytest.raises(RequestFailed) as error:
        complete(ChatClient("m", server.url, retries=0))
    assert '{"you sent": "***"' in error.value.raw and "sk-" not in error.value.raw
    assert len(error.value.raw) <= 2000


def test_faults_of_several_kinds_share_one_count_and_each_wait_is_one_line(monkeypatch, capfd):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    replies = itertools.cycle([(500, {"error": {"message": "sk-very-secret is \x1b[31minside"}}), {"choices": []}])
    with scripted(lambda r: next(replies)) as server, pytest.raises(RequestFailed, match="inside"):
        complete(ChatClient("m", server.url, retries=2))
    assert len(server.requests) == 3
    first, second = capfd.readouterr().err.splitlines()
    assert first.startswith(f"{server.url}: Error code: 500") and "; attempt 2 of 3 in 0." in first
    assert second.startswith(f"{server.url}: the server's reply is not a chat completion; attempt 3 of 3 in 1.")
    assert "secret" not in first and "\x1b" not in first


def test_an_attempt_ends_though_the_server_sends_byte_after_byte():
    start = time.monotonic()
    with trickling(30) as server, pytest.raises(H2HTalkError, match=r"no answer .*no complete reply within 2 s"):
        complete(ChatClient("m", server.url, timeout=2.0, retries=1))
    assert len(server.requests) == 2
    assert time.monotonic() - start < 25  # a single reply would take thirty


def test_a_server_that_never_replied_is_given_three_attempts(capfd):
    with nobody() as url, pytest.raises(H2HTalkError) as error:
        complete(ChatClient("m", url))
    line = rf"no answer from {url} \(.*\); check that the server runs, or use a longer --timeout"
    assert re.fullmatch(line, str(error.value))
    waits = [line.split("; ")[-1][:14] for line in capfd.readouterr().err.splitlines()]
    assert waits == ["attempt 2 of 7", "attempt 3 of 7"]


def test_a_call_ends_though_the_server_stays_busy():
    with scripted(lambda r: (503, {"error": {"message": "busy"}})) as server, pytest.raises(RequestFailed) as error:
        complete(ChatClient("m", server.url, retries=1000, max_seconds=3.0))
    assert "busy" in str(error.value)
    assert 2 <= len(server.requests) <= 3  # at once, after half a second, and after one more if the machine is not slow


def test_a_lost_server_ends_the_run_after_three_calls(capfd):
    with scripted(lambda r: (200, completion("here"), {"Connection": "close"})) as server:
        client = ChatClient("m", server.url, retries=0)
        assert complete(client).text == "here"
    for _ in range(2):  # nobody listens any more
        with pytest.raises(RequestFailed):
            complete(client)
    with pytest.raises(H2HTalkError, match=rf"lost {server.url} \(.*\); its answers are on disk"):
        complete(client)


def busy(seconds):
    return 429, {"error": {"message": "slow down"}}, {"Retry-After": seconds}


@pytest.fixture
def waits(monkeypatch):
    """The seconds of each wait; no time passes."""
    seconds = []

    async def sleep(delay):
        seconds.append(delay)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    return seconds


@pytest.mark.parametrize(
    ("value", "low", "high"),
    [("150", 150, 187.5), ("2.5", 2.5, 3.2), ("-3", 0.5, 0.7), ("nan", 0.5, 0.7), ("soon", 0.5, 0.7)],
)
def test_the_wait_that_a_server_asks_for(value, low, high, waits):
    replies = iter([busy(value), "here"])
    with scripted(lambda r: next(replies)) as server:
        assert complete(ChatClient("m", server.url)).text == "here"
    assert len(waits) == 1 and low <= waits[0] <= high


def test_the_wait_may_be_a_date(waits):
    replies = iter([busy(formatdate(time.time() + 90, usegmt=True)), "here"])
    with scripted(lambda r: next(replies)) as server:
        assert complete(ChatClient("m", server.url)).text == "here"
    assert 60 <= waits[0] <= 120


def test_a_wait_that_is_too_long_is_the_reason():
    with scripted(lambda r: busy("3600")) as server, pytest.raises(RequestFailed, match="slow down.* wait 3600 s"):
        complete(ChatClient("m", server.url))
    assert len(server.requests) == 1


def test_a_value_that_is_too_large_is_not_a_rejected_field():
    text = "'max_tokens' or 'max_completion_tokens' is too large: 9000. The maximum context length is 8192 tokens."
    reply = (400, {"error": {"message": text}})
    with scripted(lambda r: reply) as server, pytest.raises(RequestFailed, match="too large"):
        complete(ChatClient("m", server.url), max_tokens=9000)
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("status", "match"), [(401, "rejects the API key; set OPENAI_API_KEY"), (404, "has no model 'm'")]
)
def test_a_wrong_key_or_model_ends_the_run_in_one_line(status, match, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    refusal = {"error": {"message": "Incorrect API key provided: sk-very-secret"}}
    with scripted(lambda r: (status, refusal)) as server, pytest.raises(H2HTalkError, match=match) as error:
        complete(ChatClient("m", server.url))
    assert "secret" not in str(error.value)
    assert server.headers[0]["authorization"] == "Bearer sk-very-secret"


def test_a_key_may_end_with_a_line_break_and_a_malformed_one_is_not_shown(monkeypatch, capfd):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret\r\n")
    with scripted(lambda request: "yes") as server:
        assert complete(ChatClient("m", server.url)).text == "yes"
    monkeypatch.setenv("OPENAI_API_KEY", "sk-sec\nret")
    with pytest.raises(H2HTalkError, match="OPENAI_API_KEY has characters that are not allowed in a key") as error:
        ChatClient("m", server.url)
    assert "sk-sec" not in str(error.value) + "".join(capfd.readouterr())


def test_openai_itself_needs_a_key():
    with pytest.raises(H2HTalkError, match="set OPENAI_API_KEY"):
        ChatClient("gpt-4o")


def test_the_address_is_not_read_from_the_environment(monkeypatch):
    with scripted(lambda request: "here") as server, scripted(lambda request: "elsewhere") as other:
        monkeypatch.setenv("OPENAI_BASE_URL", other.url)
        assert complete(ChatClient("m", server.url)).text == "here"
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    assert ChatClient("gpt-4o").url == "https://api.openai.com/v1"


def test_addresses_lose_their_secrets():
    assert public_url("https://me:word@host:81/v1?key=1") == "https://host:81/v1"
    with pytest.raises(H2HTalkError, match="--base-url must look like"):
        public_url("localhost:8000")


def test_works_in_a_running_loop():
    async def inside():
        with scripted(lambda r: "here") as server:
            return complete(ChatClient("m", server.url)).text

    assert asyncio.run(inside()) == "here"
