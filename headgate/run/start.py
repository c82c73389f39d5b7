"""From a job and the user's options to a running job.

One rule: whatever can be refused is refused here, before anything runs and before anything in the storage changes.
"""

import contextlib
import os
import runpy
import sys
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from headgate import state as backends
from headgate.channel.gates import Gates
from headgate.core.ids import CheckpointId, LeaderId, OperatorUid, SinkId
from headgate.core.records import Restore
from headgate.core.settings import Mode
from headgate.core.state import JobState, Phase
from headgate.errors import ExternalError, HeadgateError, InvalidJob, InvalidOption
from headgate.job.analyse import Analysis, analyse
from headgate.job.api import Job
from headgate.job.node import Kind, Node
from headgate.job.plan import Plan, plan
from headgate.job.settings import to_core
from headgate.run import preflight
from headgate.run.control import ControlServer
from headgate.run.lanes import Lanes
from headgate.run.loop import Broken, Loop
from headgate.run.perform import Performer
from headgate.run.storage import Storage
from headgate.run.tasks import Tasks
from headgate.sink.api import SinkContext, TwoPhaseSink
from headgate.snapshot.take import Snapshots
from headgate.store.api import open_store
from headgate.store.jobstore import JobStore
from headgate.task import session
from headgate.view.recorder import Recorder


@dataclass(frozen=True, kw_only=True)
class Options:
    """What the user says about one run of a job, beyond what the job itself says."""

    restore_from: str | None = None
    """None or ``latest``, the number of a checkpoint, or the path of a savepoint."""
    fallback: bool = False
    """If the checkpoint is damaged, take the newest good one before it."""
    takeover: bool = False
    """Lead even if another process does: it is fenced off."""
    allow_non_restored_state: bool = False
    renamed: tuple[tuple[str, str], ...] = ()
    master: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)
    storage: str | None = None


@dataclass(frozen=True)
class Result:
    """How a run of a job ended. ``ending`` is None if another process leads now."""

    ending: str | None
    checkpoint: CheckpointId | None
    text: str

    @property
    def deposed(self) -> bool:
        """Whether another process leads the job now."""
        return self.ending is None


def load_job(path: Path) -> Job:
    """The job that a Python file describes: its only ``Job``, or the one called ``job``."""
    if not path.is_file():
        raise InvalidOption(f"{path}: there is no such file; give the Python file that describes the job")
    sys.path.insert(0, str(path.resolve().parent))
    try:
        names = runpy.run_path(str(path), run_name="__headgate__")
    except HeadgateError:
        raise
    except (Exception, SystemExit) as error:
        raise InvalidJob(f"{path}: {type(error).__name__}: {error}") from error
    found = {id(value): value for value in names.values() if isinstance(value, Job)}
    if isinstance(names.get("job"), Job):
        return names["job"]  # type: ignore[no-any-return]
    if len(found) != 1:
        what = "describes no job" if not found else f"describes {len(found)} jobs"
        raise InvalidJob(f"{path} {what}: let it have one headgate.Job, or call the right one `job`")
    return next(iter(found.values()))


def plan_job(job: Job, spark: SparkSession) -> tuple[Plan, dict[str, Analysis]]:
    """The job's tasks. Nothing is started."""
    nodes = job.freeze()
    known = analyse(nodes, spark)
    return plan(nodes, {uid: analysis.stateful for uid, analysis in known.items()}), known


@contextlib.contextmanager
def spark_for(job: Job, options: Options, spark: SparkSession | None = None) -> Iterator[SparkSession]:
    """The Spark session for a job: the user's own if there is one, else one that ends with the job."""
    made = session.build_session(
        job.name,
        master=options.master or job.master,
        conf={**job.spark_conf, **options.conf},
        existing=spark,
        state=job.state or backends.rocksdb(),
    )
    try:
        yield made
    finally:
        if spark is None:
            with contextlib.suppress(Exception):  # It may be dead, which is why we are here.
                made.stop()


def run(
    job: Job,
    options: Options | None = None,
    on_event: Callable[[dict[str, Any]], None] = lambda _: None,
    spark: SparkSession | None = None,
) -> Result:
    """Run a job to its end. Returns how it ended; raises a ``HeadgateError`` if it could not begin."""
    options = options or Options()
    nodes = job.freeze()
    _refuse_unreplayable(job, nodes)
    uri = options.storage or job.checkpoint.storage
    if "://" in uri and not uri.startswith("file:"):
        with spark_for(job, options, spark) as made:
            return _run(job, options, on_event, made, JobStore.open(open_store(uri, made), job.name))
    store = JobStore.open(open_store(uri), job.name)
    restore = preflight.choose(store, options)
    with spark_for(job, options, spark) as made:
        return _run(job, options, on_event, made, store, restore)


def _refuse_unreplayable(job: Job, nodes: tuple[Node, ...]) -> None:
    if to_core(job.checkpoint, job.restart).mode is not Mode.EXACTLY_ONCE:
        return
    for node in nodes:
        if node.kind is Kind.SOURCE and not node.what.replayable:  # type: ignore[attr-defined]
            raise InvalidJob(
                f"{node.where}: source {node.uid} cannot be read again from an offset, which exactly-once needs: "
                "choose another source, or mode='at-least-once'"
            )


def _run(
    job: Job,
    options: Options,
    on_event: Callable[[dict[str, Any]], None],
    spark: SparkSession,
    store: JobStore,
    restore: Restore | None = None,
) -> Result:
    restore = restore or preflight.choose(store, options)
    nodes = job.freeze()
    planned, known = plan_job(job, spark)
    graph = planned.graph()
    sinks = {SinkId(node.uid): node.what for node in nodes if node.kind is Kind.SINK}
    for uid, sink in sinks.items():
        assert isinstance(sink, TwoPhaseSink)
        sink.open(SinkContext(job.name, uid))
    return Running(job, options, on_event, spark, store, planned, known).lead(restore)
