"""From a job and the user's options to a running job.

One rule: whatever can be refused is refused here, before anything runs and before anything in the storage changes.
"""

import contextlib
import os
import re
import runpy
import sys
import threading
import time
import traceback
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from headgate import state_backend as backends
from headgate.access import MODES, make_directory
from headgate.channel.gates import Gates
from headgate.core.effects import Effect
from headgate.core.errors import InvalidGraph, InvalidSettings, NotRestorable
from headgate.core.events import CancelAsked, Event, TransactionCommitted
from headgate.core.ids import CheckpointId, LeaderId, SinkId, TaskId
from headgate.core.records import Ending, Restore
from headgate.core.restart import FailureClass
from headgate.core.sizing import target_ms
from headgate.core.state import JobState, Phase
from headgate.errors import ExternalError, HeadgateError, InvalidJob, InvalidOption, UserError
from headgate.job.analyse import Analysis, analyse
from headgate.job.api import Job
from headgate.job.check import check
from headgate.job.plan import Plan, plan
from headgate.job.settings import check_scheme, to_core
from headgate.job.show import guarantee
from headgate.layout import PROVIDER
from headgate.metrics.reporting import Metrics
from headgate.receipts.receipt import EVENT
from headgate.run import decisions, preflight
from headgate.run.appending import HistoryAppender
from headgate.run.describing import describe, trace_of
from headgate.run.inspecting import Inspection, jvm_sampler, state_reader
from headgate.run.loop import Broken, Loop, Observation
from headgate.run.perform import Performer
from headgate.run.schema import StateSchemas
from headgate.run.serial import SerialExecutors
from headgate.run.stalls import Stalls
from headgate.run.storage import Storage
from headgate.run.tasks import Tasks
from headgate.run.telling import Teller
from headgate.run.vitals import Vitals
from headgate.serve import listening
from headgate.serve.process import ControlServer
from headgate.sink.api import SinkContext, TwoPhaseSink
from headgate.snapshot.take import Snapshots
from headgate.source.api import Source
from headgate.store.api import open_store
from headgate.store.history import HistoryBounds
from headgate.store.jobstore import JobStore
from headgate.store.local import reporting
from headgate.task import alive, partitions, session
from headgate.task.alive import Alive
from headgate.task.logs import logger
from headgate.view.advice import Advice
from headgate.view.history import JobExecution, execution
from headgate.view.job import INTERRUPTED
from headgate.view.recorder import Recorder


@dataclass(frozen=True, kw_only=True)
class Options:
    """What the user says about one run of a job, beyond what the job itself says."""

    restore_from: str | None = None
    """None or ``latest``, the number of a checkpoint, or the path of a savepoint."""
    fallback: bool = False
    """If the checkpoint is damaged, take the newest good one before it."""
    claim: bool = False
    """Delete the savepoint that ``restore_from`` names from there, once the job has its own copy of it."""
    takeover: bool = False
    """Lead even if another process does: it is fenced off."""
    allow_non_restored_state: bool = False
    abandon_commits: tuple[str, ...] = ()
    """Sinks whose commits are given up, if some are owed."""
    reason: str = ""
    """Why they are; it is written into the history."""
    renamed: tuple[tuple[str, str], ...] = ()
    master: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)
    storage: str | os.PathLike[str] | None = None
    verify: str = "full"
    """How the files of the checkpoint in a local storage are checked first: ``full`` reads them, ``size``, ``none``."""


@dataclass(frozen=True, repr=False)
class Result:
    """How a run of a job ended. ``ending`` is None if another process leads now. Printed, it says so in a line."""

    ending: str | None
    checkpoint: CheckpointId | None
    text: str
    failure: HeadgateError | None = None
    """Why a job failed: a ``UserError`` if it would fail again, else an ``ExternalError``, from what was raised."""

    @property
    def deposed(self) -> bool:
        """Whether another process leads the job now."""
        return self.ending is None

    def __str__(self) -> str:
        """How it ended, at which checkpoint, and why."""
        at = "" if self.checkpoint is None else f" at checkpoint {self.checkpoint}"
        why = self.text if self.failure is None else str(self.failure)
        return f"{self.ending or 'deposed'}{at}{': ' * bool(why)}{why}"

    def __repr__(self) -> str:
        """The same, as what it is."""
        return f"<Result: {self}>"


def load_job(path: Path) -> Job:
    """The job that a Python file describes: its only ``Job``, or the one called ``job``."""
    if not path.is_file():
        raise InvalidOption(f"{path}: there is no such file; give the Python file that describes the job")
    sys.path.insert(0, str(path.resolve().parent))
    try:
        names = runpy.run_path(str(path), run_name="__headgate__")
    except (Exception, SystemExit) as error:
        raise _located(error, path) from error
    found = {id(value): value for value in names.values() if isinstance(value, Job)}
    if isinstance(names.get("job"), Job):
        return names["job"]  # type: ignore[no-any-return]
    if len(found) != 1:
        what = "describes no job" if not found else f"describes {len(found)} jobs"
        raise InvalidJob(f"{path} {what}: let it have one headgate.Job, or call the right one `job`")
    return next(iter(found.values()))


def _located(error: BaseException, path: Path) -> HeadgateError:
    """What went wrong in a job's file, with the line of the user's that it came from."""
    said = " ".join(str(error).split())
    if isinstance(error, ExternalError):
        return ExternalError(f"{_line_of(error, path)}: {said}")
    if isinstance(error, HeadgateError):
        return InvalidJob(said if LOCATED.match(said) else f"{_line_of(error, path)}: {said}")
    name = type(error).__name__
    if isinstance(error, SyntaxError) and error.filename:
        return InvalidJob(f"{Path(error.filename).name}:{error.lineno}: {name}: {error.msg}")
    return InvalidJob(f"{_line_of(error, path)}: {': '.join(filter(None, (name, said)))}")


def _line_of(error: BaseException, path: Path) -> str:
    """The last line of the job's file that was running."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    return f"{path.name}:{frames[-1].lineno}" if frames else str(path)


def plan_job(job: Job, spark: SparkSession) -> tuple[Plan, dict[str, Analysis]]:
    """The job's tasks. Nothing is started."""
    nodes = job.freeze()
    known = analyse(nodes, spark)
    stateful = {uid: analysis.stateful for uid, analysis in known.items()}
    planned = plan(nodes, stateful, [uid for uid, analysis in known.items() if analysis.alone])
    check(planned, known, spark)
    return planned, known


def packages_of(job: Job) -> tuple[str, ...]:
    """The Maven coordinates of what the job's sources and sinks need in Spark, each once."""
    parts = [node.what for node in job.freeze() if isinstance(node.what, Source | TwoPhaseSink)]
    return tuple(dict.fromkeys(package for part in parts for package in part.packages))


@contextlib.contextmanager
def spark_for(job: Job, options: Options, spark: SparkSession | None = None) -> Iterator[SparkSession]:
    """The Spark session for a job: the user's own if there is one, which stays, else one that ends with the job."""
    with session.session_for(
        job.name,
        master=options.master or job.master,
        conf={**job.spark_conf, **options.conf},
        existing=spark,
        state=job.state_backend or backends.rocksdb(),
        packages=packages_of(job),
    ) as made:
        try:
            yield made
        except HeadgateError:
            raise
        except Exception as error:
            why = alive.why_gone(made)
            if why is None:
                raise
            raise ExternalError(why) from error  # Whatever it says, it says no more than that.


Attach = Callable[[ControlServer, str], None]
"""Told how to ask the job, and the address of its storage, once it can be asked."""


def run(
    job: Job,
    options: Options | None = None,
    on_event: Callable[[dict[str, Any]], None] = lambda _: None,
    spark: SparkSession | None = None,
    attach: Attach = lambda _control, _uri: None,
) -> Result:
    """Run a job to its end, as ``Job.run`` says."""
    listening.prepare()
    teller = Teller(on_event)
    try:
        return _begin(job, options or Options(), teller, spark, attach)
    except (InvalidSettings, InvalidGraph, NotRestorable) as error:  # The core knows no user.
        raise InvalidJob(str(error)) from error
    finally:
        teller.close()


def _begin(job: Job, options: Options, teller: Teller, spark: SparkSession | None, attach: Attach) -> Result:
    for node in job.freeze():
        if isinstance(node.what, Source):
            node.what.open()
    uri = str(options.storage or job.checkpoint.storage)
    mode = MODES[job.checkpoint.access]
    check_scheme(uri, {**job.spark_conf, **options.conf})
    if preflight.is_remote(uri) or preflight.is_remote(options.restore_from or ""):
        with spark_for(job, options, spark) as made:
            store = JobStore.open(open_store(uri, made, directory_mode=mode), job.name)
            restore_plan = preflight.choose(store, options, made)
            return _run(job, options, teller, made, store, lambda: restore_plan, attach)
    store = JobStore.open(open_store(uri, directory_mode=mode), job.name)
    restore_plan = preflight.choose(store, options)

    def show(line: dict[str, Any]) -> None:
        teller.put({"at": time.time_ns() // 1_000_000, **line})

    with preflight.confirming(store, options, restore_plan, show) as confirmed, spark_for(job, options, spark) as made:
        return _run(job, options, teller, made, store, confirmed.result, attach)


def _run(
    job: Job,
    options: Options,
    teller: Teller,
    spark: SparkSession,
    store: JobStore,
    confirmed: Callable[[], preflight.RestorePlan],
    attach: Attach,
) -> Result:
    planned, known = plan_job(job, spark)
    restore_plan = confirmed()
    sinks = {SinkId(node.uid): node.what for node in job.freeze() if isinstance(node.what, TwoPhaseSink)}
    mode = MODES[job.checkpoint.access]
    staged = _make_working_directory(_working_root(job, store), mode) / "staged"
    settings = to_core(job.checkpoint, job.restart)
    incarnation, begun_ms = store.incarnation(), store.begun_ms(int(time.time() * 1_000))
    try:
        for uid, sink in sinks.items():
            sink.open(
                SinkContext(
                    job.name,
                    uid,
                    incarnation,
                    staged / uid,
                    settings.timeout_ms,
                    mode,
                    begun_ms,
                    checkpoint_interval_ms=settings.interval_ms,
                )
            )
        schemas = StateSchemas(spark, planned, known).refused
        restore = preflight.settle(store, planned.graph(), restore_plan, spark.conf.get(PROVIDER, None), schemas)
        if options.claim:
            _claim(restore_plan)
        running = Running(job, options, teller, spark, store, planned, known)
        if options.abandon_commits:
            running.note(
                "decision", decisions.decision(decisions.ABANDON, options.abandon_commits, options.reason, "run")
            )
        return running.lead(restore, attach)
    finally:
        for sink in sinks.values():
            sink.close()


def _claim(restore_plan: preflight.RestorePlan) -> None:
    """The job has its copy: what it began from is nobody else's. Where that cannot be deleted, it is only left."""
    assert restore_plan.imported is not None, "else it was refused"
    try:
        restore_plan.imported.delete()
    except (HeadgateError, OSError) as error:
        logger.warning("the savepoint that the job has claimed is still there: %s", error)


class Running:
    """One process that runs a job: everything it is made of, wired."""

    def __init__(
        self,
        job: Job,
        options: Options,
        teller: Teller,
        spark: SparkSession,
        store: JobStore,
        planned: Plan,
        known: Mapping[str, Analysis],
    ) -> None:
        """Nothing runs yet."""
        self._teller = teller
        self._spark = spark
        self._store = store
        self._leader = LeaderId(f"{os.getpid()}-{uuid.uuid4().hex[:12]}")
        settings = to_core(job.checkpoint, job.restart)
        graph = planned.graph()
        sinks = {SinkId(branch.sink.uid): branch.sink.what for task in planned.tasks for branch in task.branches}
        root = _working_root(job, store)
        self._stepped = threading.Condition()
        store.bound_history(HistoryBounds(job.history.max_checkpoints, job.history.max_bytes))
        self._recorder = Recorder(job.name, _executed(store))
        self._advice = Advice(settings.interval_ms)
        self._loop = Loop(graph, settings, self._perform, self._watch)
        self._gates = Gates(self._warn)
        self._serial_executors = SerialExecutors(lambda error: self._loop.tell(Broken(error)))
        self._history = HistoryAppender(store.append_history, partial(self._serial_executors.put, "history"))
        self._alive = Alive(spark, lambda error: self._loop.tell(Broken(error)))
        snapshots = Snapshots(root, None if root == store.local_root else store.copy_in)
        storage = Storage(store, root, snapshots, self._loop.tell, self._wait_committed)
        self._tasks = Tasks(
            job=job.name,
            spark=spark,
            root=root,
            plan=planned,
            graph=graph,
            analysis=known,
            sinks=sinks,  # type: ignore[arg-type]
            gates=self._gates,
            storage=storage,
            snapshots=snapshots,
            tell=self._loop.tell,
            alive=self._alive.check,
            batch_interval_ms=job.batch_interval_ms,
            target_ms=target_ms(settings.interval_ms, job.latency_ms),
        )
        self.metrics = Metrics(job.name, self._status, job.metrics)
        self._control = ControlServer(
            self._status,
            self._loop.tell,
            job.name,
            self._leader,
            self._warn,
            self.note,
            partial(open_store, spark=spark, directory_mode=MODES[job.checkpoint.access]),
            Inspection(self._tasks.queries, partial(jvm_sampler, spark), state_reader(spark, store, root)),
            self.metrics,
        )
        self._performer = Performer(
            job=job.name,
            graph=graph,
            tasks=self._tasks,
            sinks=sinks,  # type: ignore[arg-type]
            gates=self._gates,
            snapshots=snapshots,
            storage=storage,
            serial_executors=self._serial_executors,
            tell=self._loop.tell,
            answer=self._control.answer,
        )
        self._stalls = Stalls(
            tell=self._loop.tell,
            silent_s=lambda: self._alive.silent_s,
            queries=self._tasks.queries,
            serial_executors=self._serial_executors.busy,
            clock_went_back=lambda task, query: self._serial_executors.put(f"task-{task}", self._tasks.relaunch, query),
        )
        self._vitals = Vitals(spark, partitions.cores_of(spark), self._loop.tell, self._tasks.queries)
        self._described = describe(job, planned, settings, spark, store, root, options.conf)
        promise, because = guarantee(planned, settings.mode)
        self._guarantee = Observation("guarantee", {"guarantee": promise, "because": because})
        self._stateful = any(task.stateful for task in planned.tasks)
        self._text = ""
        self._miscounted = False
        self._failed: dict[str, Any] | None = None
        """The last failure that no restart has answered."""

    def lead(self, restore: Restore, attach: Attach) -> Result:
        """Run the job until it is over, or until somebody else leads."""
        self._control.open(self._store, self._described)
        self.metrics.open(
            lambda kind, text: self._loop.tell(Observation(kind, {"text": text})), self._control.serve_metrics
        )
        self._store.refuse_forgotten()  # Whoever forgets a job looks whether it runs after saying so.
        self._serial_executors.put("history", self._write_description)
        attach(self._control, self._store.uri)
        self._alive.watch()
        self._stalls.watch()
        self._vitals.watch()
        self._teller.when_failed(lambda error: self._loop.tell(Broken(error)))
        self._loop.tell(self._guarantee)
        interrupted = False
        try:
            state = self._loop.run(self._leader, restore)
        except KeyboardInterrupt:
            interrupted = True
            raise
        finally:
            self._alive.close()
            self._stalls.close()
            self._vitals.close()
            self._control.close(at_once=interrupted)
            self._tasks.interrupt_all()
            self._serial_executors.close(CLOSE_S)
            self._tasks.close()
            self._gates.close()
            self.metrics.close()
            if interrupted:
                self._say_interrupted()
        how, base = state.termination.ending, state.retained.base
        ending = None if state.phase is Phase.DEPOSED or how is None else how.value
        return Result(ending, base, self._text, self._failure() if ending == Ending.FAILED.value else None)

    def note(self, kind: str, fields: Mapping[str, Any]) -> None:
        """Have something written into the history."""
        self._loop.tell(Observation(kind, dict(fields)))

    def _status(self) -> dict[str, Any]:
        return self._recorder.status(self._loop.now_ms(), self._loop.state)

    def _failure(self) -> HeadgateError:
        """What ended the job, to be raised by whoever wants to."""
        if self._failed is None:
            return ExternalError(self._text)
        kind = UserError if self._failed["class"] == FailureClass.USER.value else ExternalError
        failure = kind(f"task {self._failed['task']} failed: {self._failed['message']}")
        failure.__cause__ = self._tasks.error_of(self._failed["task"], self._failed["run"])
        return failure

    def _wait_committed(self, checkpoint: CheckpointId) -> bool:
        """Wait until all that was pre-committed up to a checkpoint is committed."""

        def committed() -> bool:
            sinks = self._loop.state.sinks.values()
            return all(transaction.checkpoint > checkpoint for sink in sinks for _, transaction in sink.due)

        with self._stepped:
            return self._stepped.wait_for(committed, timeout=COMMIT_WAIT_S)

    def _perform(self, order: Effect, state: JobState) -> None:
        self._performer.perform(order, state)

    def _watch(
        self, now_ms: int, event: Event | Observation, before: JobState, after: JobState, effects: Sequence[Effect]
    ) -> None:
        if isinstance(event, TransactionCommitted):
            with self._stepped:
                self._stepped.notify_all()
        if isinstance(event, CancelAsked):
            self._control.taken(event, effects)
        lines = self._recorder.watch(now_ms, event, before, after, effects)
        if isinstance(event, Observation) and event.kind == "progress":
            text = self._advice.batch(event.fields["task"], event.fields["about"].batchDuration)
            if text is not None:
                self._loop.tell(Observation("warning", {"text": text}))
        stored = [self._traced(line) for line in lines if line["event"] != "progress"]
        if stored:
            self._history.put(stored)
        told = [line for line in lines if line["event"] != EVENT]  # Receipts are long, and are looked up.
        if published := [line for line in stored if line["event"] != EVENT]:
            self._control.publish(published)
        for line in published:
            self._count(line)
        for line in told:
            self._remember(line)
            self._teller.put(line)

    def _count(self, line: Mapping[str, Any]) -> None:
        """Figures for others are nothing that a job ends for. That they are wrong is said once."""
        try:
            self.metrics.take(line)
        except Exception:  # noqa: BLE001 - whatever it is
            if not self._miscounted:
                self._miscounted = True
                logger.warning("metrics have missed an event, and may from now on be wrong", exc_info=True)

    def _traced(self, line: dict[str, Any]) -> dict[str, Any]:
        """A failure with its trace, for those who look at it later. Whoever watches gets the line that it comes to."""
        error = self._tasks.error_of(line["task"], line["run"]) if line["event"] == "task-failed" else None
        return line if error is None else {**line, "trace": trace_of(error)}

    def _write_description(self) -> None:
        """Let those who look later see what the job was. It runs without, where the storage does not take it."""
        try:
            self._store.put_description(self._described)
        except (HeadgateError, OSError) as error:
            logger.warning("the plan of the job cannot be written down: %s", error)

    def _warn(self, text: str) -> None:
        self._loop.tell(Observation("warning", {"text": text}))

    def _remember(self, line: dict[str, Any]) -> None:
        match line["event"]:
            case "generation":
                if line["base"] is None and self._stateful:
                    self._advise_on_partitions()
            case "task-failed":
                self._failed = line
            case "restart":
                self._failed = None
            case "ended":
                self._text = line["text"]
            case _:
                pass

    def _say_interrupted(self) -> None:
        """Whoever asks for the status should not take this for a crash."""
        text = "its process was interrupted: `headgate run` goes on from the last checkpoint"
        line = {
            "at": self._loop.now_ms(),
            "event": "ended",
            "ending": INTERRUPTED,
            "text": text,
            "leader": self._leader,
        }
        self._history.put([line])
        self._history.drain()

    def _advise_on_partitions(self) -> None:
        """A job begins, and will keep the number. Once is enough, however often it begins."""
        self._stateful = False
        text = partitions.advice(partitions.chosen(self._spark), partitions.cores_of(self._spark))
        if text is not None:
            self._loop.tell(Observation("warning", {"text": text}))


def _executed(store: JobStore) -> JobExecution:
    """What the history tells of earlier executions. A job does not fail to begin because that cannot be read."""
    try:
        return execution(*store.history().status_lines())
    except (HeadgateError, OSError) as error:
        logger.warning("the history of the job cannot be read: %s", error)
        return JobExecution()


LOCATED = re.compile(r"[^\s:]+\.py:\d+: ")
COMMIT_WAIT_S = 2.0
"""How long the copy of a savepoint waits for commits before it is given back, to be ordered again."""
CLOSE_S = 20.0
"""How long the end of a process waits for what is under way."""


@contextmanager
def open_sink(job: Job, store: JobStore, name: str) -> Iterator[tuple[TwoPhaseSink, TaskId, Path]]:
    """One sink of a job that does not run, to commit what it owes; who writes to it is not known without a plan."""
    known = {node.uid: node.what for node in job.freeze() if isinstance(node.what, TwoPhaseSink)}
    if name not in known:
        raise InvalidOption(f"job {job.name} has no sink {name}; it has: {', '.join(known) or 'none'}")
    sink, mode, root = known[name], MODES[job.checkpoint.access], _working_root(job, store)
    staged = _make_working_directory(root, mode) / "staged"
    settings = to_core(job.checkpoint, job.restart)
    context = SinkContext(
        job.name,
        SinkId(name),
        store.incarnation(),
        staged / name,
        settings.timeout_ms,
        mode,
        store.begun_ms(int(time.time() * 1_000)),
        checkpoint_interval_ms=settings.interval_ms,
    )
    try:
        sink.open(context)
        yield sink, TaskId(""), root
    finally:
        sink.close()


def _working_root(job: Job, store: JobStore) -> Path:
    """The job's working directory: inside the storage unless the user wants it elsewhere."""
    wanted = job.checkpoint.working_directory
    if wanted is not None:
        return Path(str(wanted).removeprefix("file://")).absolute() / job.name
    if store.local_root is None:
        raise InvalidOption(
            f"storage {store.uri} is not a directory of this machine: give Checkpointing a working_directory "
            "that all executors share"
        )
    return store.local_root


def _make_working_directory(root: Path, mode: int) -> Path:
    """Make the job's working directory with what queries and sinks make their own directories in."""
    with reporting(root):
        for directory in (root.parent, root, *(root / name for name in ("tasks", "channels", "staged"))):
            make_directory(directory, mode)
    return root
