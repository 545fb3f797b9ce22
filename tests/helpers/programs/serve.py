"""Stands in for `vllm serve MODEL --port N ...`: is healthy after a while, and repeats the end of each message.

With SERVER_ENDS_AFTER in the environment it ends after so many replies, as a server that crashes.
"""

import json
import os
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count

HEALTH_CHECKS, REPLIES = count(1), count(1)
ENDS_AFTER = int(os.environ.get("SERVER_ENDS_AFTER", "0"))


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def send(self, status, body=b""):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.send(200 if self.path == "/health" and next(HEALTH_CHECKS) > 2 else 503)

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if ENDS_AFTER and next(REPLIES) > ENDS_AFTER:
            os._exit(1)
        message = {"role": "assistant", "content": request["messages"][-1]["content"][-30:]}
        choice = {"index": 0, "finish_reason": "stop", "message": message}
        self.send(200, json.dumps({"id": "1", "object": "chat.completion", "choices": [choice]}).encode())

    def log_message(self, *_):
        pass


print("vllm", *sys.argv[1:], flush=True)
port = int(sys.argv[sys.argv.index("--port") + 1])
ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()
