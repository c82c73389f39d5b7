"""The contender's side of a round: a request comes as a line, a function of that name does it, its answer goes back.

Only the standard library: PyFlink's Python runs this too. Answers have a pipe of their own, since standard output
belongs to whatever the peers print.
"""

import json
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from queue import SimpleQueue
from typing import Any

REPLY_FD = "HEADGATE_BENCH_REPLY_FD"
Request = dict[str, Any]
Handler = Callable[[Request], Mapping[str, Any]]


def serve(handlers: Mapping[str, Handler]) -> None:
    """Answer requests until standard input ends: then whoever asked is gone, and all of this group ends at once."""
    requests: SimpleQueue[str] = SimpleQueue()
    threading.Thread(target=_listen, args=(requests,), daemon=True).start()
    with os.fdopen(int(os.environ[REPLY_FD]), "w", encoding="utf-8") as out:
        while True:
            request = json.loads(requests.get())
            begun = time.perf_counter()
            try:
                answer = dict(handlers[request["do"]](request))
                answer.setdefault("wall_s", time.perf_counter() - begun)
            except Exception as error:  # noqa: BLE001 - whatever it is, the harness shows it
                traceback.print_exc()
                answer = {"error": f"{type(error).__name__}: {error}"[:2000]}
            out.write(json.dumps(answer) + "\n")
            out.flush()


def _listen(requests: "SimpleQueue[str]") -> None:
    for line in sys.stdin:
        requests.put(line)
    os.killpg(os.getpgid(0), signal.SIGKILL)
