"""A stand-in of the Hub's HTTP API for the calls that huggingface_hub makes to create a repository and commit to it."""

import base64
import hashlib
import json
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.parse import urlsplit

import yaml

TOKEN = "hf_stand_in"
_AS_LFS = (".parquet", ".png")


class Hub(ThreadingHTTPServer):
    """Repositories in memory: `repos` maps "type/ORG/NAME" to files by path; `calls` are "METHOD path".

    The Hub's documentation says that it checks an `eval.yaml` and which keys are required, but not how it refuses one.
    """

    def __init__(self):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.repos: dict[str, dict[str, bytes]] = {}
        self.created: list[dict] = []
        self.pull_requests: dict[str, dict[str, bytes]] = {}
        self.objects: dict[str, bytes] = {}
        self.calls: list[str] = []
        self.frameworks = {"inspect-ai"}  # allowed in an eval.yaml


@contextmanager
def hub():
    with Hub() as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


class _Handler(BaseHTTPRequestHandler):
    server: Hub

    def log_message(self, *_):
        pass

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        path, query = self._record_call("POST")
        if self.headers.get("Authorization") != f"Bearer {TOKEN}":
            return self._reply({"error": "Invalid credentials"}, 401)
        parts = path.strip("/").split("/")
        if path == "/api/repos/create":
            return self._create(json.loads(body))
        if path == "/api/validate-yaml":
            return self._validate(json.loads(body))
        if "preupload" in parts:
            return self._preupload(json.loads(body))
        if path.endswith(".git/info/lfs/objects/batch"):
            return self._batch(json.loads(body))
        if "commit" in parts:
            repo = "/".join([parts[1].removesuffix("s"), *parts[2:4]])
            return self._commit(repo, [json.loads(line) for line in body.splitlines()], "create_pr=1" in query)
        return self._reply({"error": "unknown"}, 404)

    def do_GET(self):
        path, _ = self._record_call("GET")
        repo, files = self._read(path)
        if files is None:
            return self._reply({"error": "not found"}, 404)
        if path.startswith("/api/datasets/") and "tree" in path:
            return self._reply(
                [{"type": "file", "path": name, "size": len(data), "oid": "0" * 40} for name, data in files.items()]
            )
        if path.startswith("/api/datasets/"):
            siblings = [{"rfilename": name} for name in files]
            return self._reply({"id": repo, "sha": "a" * 40, "siblings": siblings, "private": False, "tags": []})
        return self._send_file(files[path.split("/resolve/")[1].split("/", 1)[1]])

    do_HEAD = do_GET

    def _read(self, path):
        """Name and files of a dataset repository, for the calls of snapshot_download."""
        parts = path.strip("/").removeprefix("api/").split("/")
        repo = "/".join(parts[1:3])
        return repo, self.server.repos.get(f"dataset/{repo}") if parts[0] == "datasets" else None

    def _send_file(self, data):
        self.send_response(200)
        self.send_header("ETag", f'"{hashlib.sha1(data).hexdigest()}"')
        self.send_header("X-Repo-Commit", "a" * 40)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(data)

    def do_PUT(self):
        path, _ = self._record_call("PUT")
        body = self.rfile.read(int(self.headers["Content-Length"]))
        assert hashlib.sha256(body).hexdigest() == path.removeprefix("/lfs/")
        self.server.objects[path.removeprefix("/lfs/")] = body
        self._reply({})

    def _create(self, request):
        self.server.created.append(request)
        name = f"{request['organization']}/{request['name']}"
        kind = request.get("type") or "model"
        exists = f"{kind}/{name}" in self.server.repos
        self.server.repos.setdefault(f"{kind}/{name}", {})
        self._reply({"url": self._page(f"{kind}/{name}")}, 409 if exists else 200)

    def _validate(self, request):
        try:
            yaml.safe_load(request["content"].split("---")[1])
        except (IndexError, yaml.YAMLError) as error:
            return self._reply({"errors": [{"message": str(error)}]}, 400)
        return self._reply({"errors": [], "warnings": []})

    def _preupload(self, request):
        modes = {file["path"]: "lfs" if file["path"].endswith(_AS_LFS) else "regular" for file in request["files"]}
        self._reply(
            {"files": [{"path": path, "uploadMode": mode, "shouldIgnore": False} for path, mode in modes.items()]}
        )

    def _batch(self, request):
        objects = [
            {**part, "actions": {"upload": {"href": f"{self.server.url}/lfs/{part['oid']}"}}}
            for part in request["objects"]
        ]
        self._reply({"transfer": "basic", "objects": objects})

    def _commit(self, repo, lines, as_pull_request):
        files = {}
        for line in lines:
            value = line["value"]
            if line["key"] == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif line["key"] == "lfsFile":
                files[value["path"]] = self.server.objects[value["oid"]]
            else:
                assert line["key"] == "header", line
        if error := self._benchmark_error(files.get("eval.yaml")):
            return self._reply({"error": error}, 400)
        place = self.server.pull_requests if as_pull_request else self.server.repos
        place.setdefault(repo, {}).update(files)
        url = self._page(repo)
        return self._reply(
            {"commitUrl": f"{url}/commit/{'a' * 40}", "commitOid": "a" * 40, "pullRequestUrl": f"{url}/discussions/1"}
        )

    def _benchmark_error(self, content):
        if content is None:
            return None
        benchmark = yaml.safe_load(content)
        if missing := {"name", "description", "evaluation_framework", "tasks"} - benchmark.keys():
            return f"eval.yaml has no {', '.join(sorted(missing))}"
        if benchmark["evaluation_framework"] not in self.server.frameworks:
            return f"evaluation_framework must be one of {', '.join(sorted(self.server.frameworks))}"
        return None

    def _page(self, repo):
        """The URL of a repository: datasets and Spaces have a prefix, models do not."""
        kind, name = repo.split("/", 1)
        return f"{self.server.url}/{name}" if kind == "model" else f"{self.server.url}/{kind}s/{name}"

    def _record_call(self, method):
        parts = urlsplit(self.path)
        self.server.calls.append(f"{method} {parts.path}")
        return parts.path, parts.query

    def _reply(self, content, status=200):
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
