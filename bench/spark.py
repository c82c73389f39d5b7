"""What comparisons of parts share: a session, a job that is run in it, a directory."""

import shutil
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import headgate as hg
from headgate.run.control import ControlClient
from headgate.store.api import open_store
from headgate.store.jobstore import JobStore
from headgate.task import session

Line = dict[str, Any]
ROUNDS = 5


@contextmanager
def scratch() -> Iterator[Path]:
    """A directory that is gone afterwards."""
    where = Path(tempfile.mkdtemp(prefix="headgate-bench-"))
    try:
        yield where
    finally:
        shutil.rmtree(where, ignore_errors=True)


def make_session(packages: Iterable[str] = ()) -> SparkSession:
    """The session that all comparisons of one run share."""
    conf = {"spark.sql.shuffle.partitions": "2", "spark.driver.memory": "4g"}
    return session.build_session(
        "bench", master="local[2]", conf=conf, state=hg.state_backend.rocksdb(), packages=packages
    )


def run(job: hg.Job, spark: SparkSession, on_event: Callable[[Line], None] | None = None) -> list[Line]:
    """Run a job to its end, and return what was recorded."""
    lines: list[Line] = []

    def take(line: Line) -> None:
        lines.append(line)
        if on_event is not None:
            on_event(line)

    result = job.run(None, take, spark)
    if result.ending not in ("finished", "cancelled", "stopped"):
        raise RuntimeError(result.text)
    return lines


def ask(storage: Path, job: str, command: str) -> None:
    """Ask a running job for something, without waiting for the answer."""
    store = JobStore.find(open_store(str(storage)), job)
    threading.Thread(target=lambda: ControlClient(store).ask(command), daemon=True).start()
