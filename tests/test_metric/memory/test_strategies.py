"""What each memory strategy shows, and strategies of a team's own that fail."""

import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest
from helpers.markdown_files import read_page
from helpers.paths import ROOT

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_metric.memory.contexts import read_contexts, write_contexts
from h2htalk_metric.memory.strategies import Retrieval, strategy_factory


def session(number, *texts):
    roles = ["user", "companion"] * len(texts)
    turns = [
        {"role": role, "content": text, "number": n}
        for n, (role, text) in enumerate(zip(roles, texts, strict=False), 1)
    ]
    return {"id": f"s{number}", "date": f"2026-03-{number:02}", "time": "20:00", "turns": turns}


HISTORY = [
    session(1, "The scan is on Thursday.", "Good."),
    session(2, "My sister's dog ran off.", "Oh no."),
    session(3, "I baked bread.", "Smells good from here."),
]
NAMES = {"user": "Ada", "companion": "Nora"}


def question(number, day, sessions, message="When is the scan?"):
    visible = [{"id": s["id"]} for s in HISTORY[:sessions]]
    row = {"id": f"en-01-memory-q{number}", "relationship": "01-x", "date": f"2026-03-{day:02}", "message": message}
    return {**row, **NAMES, "sessions": visible}


QUESTIONS = [question(1, 2, 2), question(2, 9, 3)]


def contexts_of(name, file, **options):
    create = strategy_factory(name, **options)
    return write_contexts(file, {"01-x": QUESTIONS}, {"01-x": HISTORY}, create)


def test_nothing_and_everything(tmp_path):
    assert {context.text for context in contexts_of("none", tmp_path / "a").values()} == {""}
    first, last = (contexts_of("full", tmp_path / "b")[row["id"]].text for row in QUESTIONS)
    assert "Ada: The scan is on Thursday." in first
    assert "bread" not in first  # it is said after the first question
    assert last.endswith("Nora: Smells good from here.")


def test_a_window_shows_the_last_whole_lines(tmp_path):
    shown = contexts_of("window", tmp_path / "a", window_tokens=16)["en-01-memory-q2"].text
    assert "I baked bread." in shown
    assert "scan" not in shown


def test_retrieval_shows_the_nearest_pairs_in_the_order_of_time():
    words = ["scan", "dog", "bread"]
    strategy = Retrieval(lambda texts: np.array([[float(word in text) for word in words] for text in texts]), top_k=1)
    for each in HISTORY:
        strategy.observe({**each, **NAMES})
    assert "The scan is on Thursday." in strategy.context({"message": "When is the scan?"})
    assert "dog" not in strategy.context({"message": "When is the scan?"})


class Broken:
    """Loses the second session; the server of a team may, too."""

    def observe(self, session):
        if session["id"] == "s3":
            raise ValueError("disk full\nsecond line")

    def context(self, question):
        return "all well"


class Repaired(Broken):
    def observe(self, session):
        pass


class Talkative(Repaired):
    def context(self, question):
        return "x" * 10_000_000


class Silent(Repaired):
    def context(self, question):
        return None


def own(name):
    return f"{__file__}:{name}"


def test_a_strategy_that_fails_leaves_its_questions_unscored_until_it_works(tmp_path):
    contexts = contexts_of(own("Broken"), tmp_path / "a")
    assert contexts["en-01-memory-q1"].text == "all well"  # asked before the failure
    assert contexts["en-01-memory-q2"].error == "observe failed: ValueError: disk full second line"
    create = strategy_factory(own("Repaired"))
    again = write_contexts(tmp_path / "a", {"01-x": QUESTIONS}, {"01-x": HISTORY}, create, attempt=2)
    assert [(c.text, c.attempt) for c in again.values()] == [("all well", 1), ("all well", 2)]
    assert read_contexts(tmp_path / "a") == again


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        (own("Talkative"), "context has 10,000,000 characters, more than"),
        (own("Silent"), "context is NoneType, not a text"),
        ("http://127.0.0.1:9", "observe failed: http://127.0.0.1:9/observe: .*refused"),
    ],
)
def test_a_bad_context_has_a_reason_in_one_line(tmp_path, name, reason):
    errors = {context.error for context in contexts_of(name, tmp_path / "a").values()}
    assert len(errors) == 1
    assert re.match(reason, errors.pop())


def test_the_last_line_of_a_killed_attempt_is_ignored(tmp_path):
    contexts = contexts_of("full", tmp_path / "a")
    content = (tmp_path / "a").read_bytes()
    (tmp_path / "a").write_bytes(content[:-20])
    assert len(read_contexts(tmp_path / "a")) == 1
    assert contexts_of("full", tmp_path / "a") == contexts
    assert read_contexts(tmp_path / "a") == contexts


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("ful", "unknown memory strategy 'ful'. Did you mean full"),
        ("nowhere:Memory", "cannot import the memory strategy 'nowhere:Memory' .*No module named 'nowhere'"),
        ("json:JSONDecoder", "json:JSONDecoder needs the methods observe"),
        (own("Missing"), "cannot import the memory strategy .*Missing"),
    ],
)
def test_an_unknown_strategy_is_refused(name, message):
    with pytest.raises(H2HTalkError, match=message):
        strategy_factory(name)


def test_the_example_in_the_documentation_remembers(tmp_path):
    """The page shows a strategy of one's own; it is used here exactly as it is printed."""
    blocks = read_page(ROOT / "docs" / "memory.md").blocks
    (code,) = [block.text for block in blocks if block.language == "python" and "class " in block.text]
    assert len(code.splitlines()) <= 30
    (tmp_path / "own_memory.py").write_text(code, "utf-8")
    contexts = contexts_of(f"{tmp_path / 'own_memory.py'}:KeywordMemory", tmp_path / "a")
    assert "The scan is on Thursday." in contexts["en-01-memory-q2"].text
    assert "bread" not in contexts["en-01-memory-q2"].text


def test_a_server_remembers_each_arc_apart(tmp_path):
    seen: dict[str, list[str]] = {}

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_):
            pass

        def do_POST(self):
            content = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            observed = seen.setdefault(content["arc"], [])
            if self.path == "/observe":
                observed.append(content["session"]["id"])
            reply = json.dumps(
                {"context": f"{content['question']['message']} {observed}"} if "question" in content else None
            )
            self.send_response(200)
            self.send_header("Content-Length", str(len(reply)))
            self.end_headers()
            self.wfile.write(reply.encode())

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        contexts = contexts_of(f"http://127.0.0.1:{server.server_port}/", tmp_path / "a")
    finally:
        server.shutdown()
        server.server_close()
    assert contexts["en-01-memory-q1"].text == "When is the scan? ['s1', 's2']"
    assert contexts["en-01-memory-q2"].text == "When is the scan? ['s1', 's2', 's3']"
    assert [name[:4] for name in seen] == ["01-x"]
