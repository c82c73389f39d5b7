"""A small server that answers with a world: to work at the pages (``python -m tests.ui.recorded``), and for states that
no real job can be brought into in a second.

One rule: it has the paths and the habits of docs/rest.md, and no wisdom of its own.
"""

import argparse
import json
import re
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from headgate.serve import models
from tests.ui.answers import CHECKPOINT_CONFIG, CONFIG, Recorded, events_of
from tests.ui.flames import flame_graph
from tests.ui.states import kept_state, state_difference, state_rows
from tests.ui.world import Data, World, blank
from tests.ui.worlds import WORLDS

FILES = Path(__file__).parents[2] / "headgate" / "serve" / "ui"
TYPES = {
    ".html": "text/html",
    ".js": "text/javascript",
    ".css": "text/css",
    ".svg": "image/svg+xml",
    ".txt": "text/plain",
    ".json": "application/json",
}
TOKEN, READ_TOKEN = "look-and-command", "look-only"


class Handler(BaseHTTPRequestHandler):
    """One request."""

    protocol_version = "HTTP/1.1"
    recorded: Recorded

    def do_GET(self) -> None:
        self.serve("GET")

    def do_POST(self) -> None:
        self.serve("POST")

    def do_DELETE(self) -> None:
        self.serve("DELETE")

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name in the standard library
        """Say nothing."""

    def serve(self, method: str) -> None:
        address = urlsplit(self.path)
        if self.recorded.gone.is_set():
            self.close_connection = True
            return
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if not address.path.startswith("/v1/"):
            self.file(address.path)
            return
        token = self.headers.get("Authorization", "").removeprefix("Bearer ")
        if token not in {TOKEN, READ_TOKEN}:
            self.answer(401, {"errors": ["no token, or another one: see the address that headgate printed"]})
        elif method != "GET" and token == READ_TOKEN:
            self.answer(403, {"errors": ["this token only reads"]})
        else:
            try:
                self.route(
                    method, [unquote(part) for part in address.path.split("/")[2:]], parse_qs(address.query), body
                )
            except KeyError as error:
                self.answer(404, {"errors": [str(error.args[0])]})

    def route(self, method: str, path: list[str], asked: dict[str, list[str]], body: bytes) -> None:
        it = self.recorded
        token = self.headers.get("Authorization", "").removeprefix("Bearer ")
        match method, path:
            case "GET", ["overview"]:
                self.answer(200, it.overview())
            case "GET", ["config"]:
                self.answer(200, it.config(reads=token == READ_TOKEN))
            case "GET", ["jobs"]:
                self.answer(
                    200,
                    {
                        "jobs": [
                            models.JobSummary.model_validate(one.summary(it.at)).model_dump(by_alias=True)
                            for one in it.worlds
                        ]
                    },
                )
            case "GET", ["jobs", jid, "stream"]:
                self.stream(it.world(jid))
            case _, ["jobs", jid, *rest]:
                self.of_job(method, it.world(jid), rest, asked, json.loads(body or b"{}"))
            case _:
                raise KeyError(f"there is no path /v1/{'/'.join(path)}")

    def of_job(self, method: str, world: World, path: list[str], asked: dict[str, list[str]], body: Data) -> None:
        it = self.recorded
        match method, path:
            case "GET", []:
                self.answer(200, world.details(it.at))
            case "GET", ["checkpoints"]:
                self.answer(200, it.history(world, asked))
            case "GET", ["checkpoints", "config"]:
                self.described(world, CHECKPOINT_CONFIG | {"checkpoint_storage": world.storage})
            case "GET", ["checkpoints", "details", number]:
                self.answer(200, it.details_of(world, int(number)))
            case "GET", ["checkpoints", "details", number, "subtasks", task]:
                self.answer(200, it.partitions(world, int(number), task))
            case "GET", ["receipts"]:
                self.answer(200, it.receipts(world))
            case "GET", ["transactions"]:
                self.answer(200, {"in_doubt": []})
            case "GET", ["checkpoints", "details", number, "waiting"]:
                self.answer(200, it.waiting(world, int(number), stacks=asked.get("stacks") == ["true"]))
            case "GET", ["state"]:
                self.answer(200, kept_state(asked))
            case "GET", ["state", "rows"]:
                self.answer(200, state_rows(asked))
            case "GET", ["state", "difference"]:
                self.answer(200, state_difference(asked))
            case "GET", ["flamegraph"]:
                self.answer(200, flame_graph(asked, it.sampling))
            case "GET", ["savepoints"]:
                self.answer(200, it.savepoints(world))
            case "GET", ["exceptions"]:
                root = world.failures[0] if world.phase == "failed" and world.failures else None
                history = {"entries": world.failures, "truncated": False}
                self.answer(200, {"exceptionHistory": history, "root": root, "next_before": None})
            case "GET", ["restarts"]:
                self.answer(200, {"counts": world.restart_counts(), "history": world.restarts, "next_before": None})
            case "GET", ["events"]:
                self.answer(200, it.events(world, asked))
            case "GET", ["diagnosis"]:
                self.answer(200, it.diagnosis(world))
            case "GET", ["logs"]:
                self.answer(200, it.logs(world, asked))
            case "GET", ["config"]:
                self.answer(
                    200,
                    {**CONFIG, "jid": world.name, "name": world.name}
                    if world.described
                    else blank(models.JobConfiguration, jid=world.name, name=world.name, versions={}),
                )
            case "GET", ["operations"]:
                self.answer(200, {"operations": it.operations})
            case "GET", ["operations", name]:
                wait = min(60.0, float(asked.get("wait", ["0"])[0]))
                self.answer(200, it.operation(name, wait, int(asked.get("after", ["0"])[0])))
            case _, _ if method != "GET" and not world.live:
                self.answer(409, {"errors": [f"{world.name} is not running here: start it with headgate run"]})
            case "POST", ["checkpoints" | "savepoints" | "stop" | "cancel" as kind]:
                self.answer(202, it.begin(world, kind.removesuffix("s"), None, body["triggerId"]))
            case "POST", ["checkpoints", "details", number, "hold" | "release" as kind]:
                self.answer(202, it.begin(world, kind, int(number), body["triggerId"]))
            case "POST", ["savepoints", "details", number, "label"]:
                self.answer(202, it.begin(world, "label", int(number), body["triggerId"]))
            case "DELETE", ["savepoints", "details", number]:
                self.answer(202, it.begin(world, "delete", int(number), f"delete-{number}"))
            case _:
                raise KeyError(f"there is no path /v1/jobs/{world.name}/{'/'.join(path)}")

    def described(self, world: World, answer: Data) -> None:
        if world.described:
            self.answer(200, answer)
        else:
            self.answer(404, {"errors": ["nobody has written the settings down: an earlier release ran the job last"]})

    def stream(self, world: World) -> None:
        it = self.recorded
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        last = world.last_id(it.at)
        began = bool(world.progress(it.at))
        try:
            while not it.gone.is_set():
                now = it.at
                for number in range(last + 1, world.last_id(now) + 1):
                    for one in events_of(world, number, now)[1:]:
                        self.say("event", one)
                if (begins := bool(world.progress(now))) and not began:
                    self.say("event", events_of(world, world.last_id(now) + 1, now)[0])
                began, last = begins, world.last_id(now)
                self.say("job", world.details(now))
                it.gone.wait(0.5 / it.speed)
        except OSError:
            pass

    def say(self, event: str, data: Data) -> None:
        self.wfile.write(f"event: {event}\ndata: {json.dumps(data)}\n\n".encode())
        self.wfile.flush()

    def file(self, path: str) -> None:
        name = "index.html" if path == "/" else path.removeprefix("/")
        place = FILES / name
        if not re.fullmatch(r"[\w.-]+", name) or not place.is_file():
            self.answer(404, {"errors": [f"there is no file {path}"]})
            return
        data = place.read_bytes()
        self.send_response(200)
        self.send_header("Content-Type", TYPES[place.suffix])
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def answer(self, code: int, value: Any) -> None:
        data = json.dumps(value).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


class Server(ThreadingHTTPServer):
    """Each request in a thread of its own."""

    daemon_threads = True
    block_on_close = False

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A page that has been left does not read its answer."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


@contextmanager
def serving(recorded: Recorded, port: int = 0) -> Iterator[str]:
    """Serve until the end, and say where."""
    server = Server(("127.0.0.1", port), type("Bound", (Handler,), {"recorded": recorded}))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/"
    finally:
        recorded.gone.set()
        server.shutdown()
        server.server_close()
        thread.join()


def recorded_world(name: str) -> Recorded:
    return Recorded(WORLDS[name](round(time.time() * 1000)))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--world", choices=sorted(WORLDS), default="busy")
    parser.add_argument("--port", type=int, default=8090)
    options = parser.parse_args()
    with serving(recorded_world(options.world), options.port) as address:
        print(f"{address}#token={TOKEN}  (to read: {READ_TOKEN})", flush=True)  # noqa: T201 - its work
        threading.Event().wait()
