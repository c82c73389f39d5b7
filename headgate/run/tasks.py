"""How a planned task becomes work for a Spark query.

One rule: one action for each batch. A task with one output writes straight to it; a task with several writes one
segment, and all of them read that.
"""

import re
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from headgate import layout, room
from headgate.channel import reader, segments
from headgate.channel.gates import Gates
from headgate.channel.segments import SegmentEntry, Segments
from headgate.core import effects as e
from headgate.core.events import BatchCommitted, Event, SinkFull, TaskFailed
from headgate.core.graph import Channel, Graph
from headgate.core.ids import NO_BATCH, Batch, CheckpointId, Generation, Run, SinkId, TaskId
from headgate.core.records import CompletedCheckpoint, InFlight
from headgate.core.restart import Failure, FailureClass
from headgate.core.sizing import TARGET_MAX_MS
from headgate.errors import BadStorage, ExternalError, HeadgateError, InternalError, UserError
from headgate.job.analyse import Analysis, evaluate
from headgate.job.node import Node
from headgate.job.plan import Plan, PlannedTask
from headgate.receipts.receipt import Range
from headgate.run import fit
from headgate.run.batch_runs import BatchRuns, Past
from headgate.run.loop import Observation
from headgate.run.receipts import inputs_of
from headgate.run.sizes import Sizes
from headgate.run.storage import Storage
from headgate.sink.api import TwoPhaseSink, WriteId
from headgate.sink.tally import tallying
from headgate.snapshot import rebuild
from headgate.snapshot.take import Snapshots, task_directory
from headgate.source.api import Source
from headgate.store.api import Forbidden
from headgate.task import partitions
from headgate.task.failure import TOO_BUSY
from headgate.task.limits import CannotSize, set_limits
from headgate.task.listener import Listener, said
from headgate.task.logs import silence
from headgate.task.query import Query, Stopped
from headgate.task.spec import QuerySpec

LOOK_FOR_ROOM_S = 1.0
"""A batch for which a sink has no room looks this often, and whenever the sink has committed something."""


class Tasks:
    """The tasks of one process."""

    def __init__(
        self,
        *,
        job: str,
        spark: SparkSession,
        root: Path,
        plan: Plan,
        graph: Graph,
        analysis: Mapping[str, Analysis],
        sinks: Mapping[SinkId, TwoPhaseSink],
        gates: Gates,
        storage: Storage,
        snapshots: Snapshots,
        tell: Callable[[Event | Observation], None],
        alive: Callable[[], bool] = lambda: True,
        batch_interval_ms: int | None,
        target_ms: float = TARGET_MAX_MS,
    ) -> None:
        """Nothing runs yet."""
        self._job = job
        self._spark = spark
        self._root = root
        self._graph = graph
        self._planned = {task.id: task for task in plan.tasks}
        self._channels = {channel.id: channel for channel in plan.channels}
        self._analysis = analysis
        self._sinks = sinks
        self._gates = gates
        self._storage = storage
        self._snapshots = snapshots
        self._tell = tell
        self._alive = alive
        self._batch_interval_ms = batch_interval_ms
        self._listener = Listener(spark)
        self._loud_again = silence(spark)
        self._lock = threading.Lock()
        self._queries: dict[TaskId, Query] = {}
        self._pacing = Pacing()
        self.batch_runs = BatchRuns()
        self._settled: dict[tuple[Generation, SinkId], Batch] = {}
        self._advised: set[TaskId] = set()
        self._sizes = Sizes(
            graph,
            {task.id: tuple(source.sizes_itself for _, source in self._sources(task)) for task in plan.tasks},
            target_ms,
            self._warn,
            count=self._count_rows,
        )

    # -- orders --------------------------------------------------------------------------------------------------------

    def start(self, order: e.StartTask, base: CheckpointId | None) -> None:
        """Start a run, unless it or a later one is there. Any other run is stopped first."""
        there = self._queries.get(order.task)
        if there is not None:
            if (there.work.generation, there.work.run) >= (order.generation, order.run):
                return
            there.stop()
        try:
            begin = self._make_ready(order, base, there)
        except (HeadgateError, OSError) as error:
            # Not in place: there is nothing to go on with. What only the user can put right is not tried again.
            final = isinstance(error, UserError) and not isinstance(error, Forbidden)
            kind = FailureClass.USER if final else FailureClass.INTERNAL
            self._tell(TaskFailed(order.generation, order.task, order.run, Failure(kind, str(error))))
            return
        self._gates.hold(order.generation, order.task)
        work = self._work(order, begin)
        self._sizes.begin(order.task)
        query = Query(work, self._listener, self._tell_of_query, self._measured(order.task, work.directory))
        with self._lock:
            self._queries[order.task] = query
        query.pause(self._pacing.next())
        query.start(skip=order.skip, exhausted=order.exhausted)

    def interrupt(self, order: e.StopTask) -> None:
        """A run is about to be stopped: let it wait for nothing."""
        query = self._of(order)
        if query is not None:
            query.interrupt()

    def stop(self, order: e.StopTask) -> None:
        """Stop a run, at once or when it has nothing left to do."""
        query = self._of(order)
        if query is None:
            return
        if order.drain:
            query.drain()
        else:
            query.stop()

    def ask(self, order: e.AskTask) -> None:
        """Ask a run where it stands."""
        query = self._of(order)
        if query is None or not query.up:
            return
        try:
            self._tell(query.report())
        except InternalError:
            return  # The run has told it as its failure.
        except (HeadgateError, OSError) as error:
            self._warn(f"task {order.task} cannot tell where it stands, and will be asked again: {error}")

    def admit(self, order: e.AdmitBatch) -> None:
        """Let a batch go on from the hook."""
        query = self._of(order)
        if query is not None:
            query.admit(order.batch)

    def notify(self, completed: CompletedCheckpoint) -> None:
        """Tell the sources that a checkpoint is complete, each with where it stands in it. Nothing depends on it."""
        for snapshot in completed.tasks:
            sources = self._sources(self._planned[snapshot.task])
            if sources and snapshot.generation == completed.generation and snapshot.batch != NO_BATCH:
                query = self._root / task_directory(snapshot.task, snapshot.generation)
                try:
                    offsets = layout.read_offsets(query, snapshot.batch)
                    for (_, source), offset in zip(sources, offsets.of_sources(), strict=True):
                        source.notify_completed(offset)
                except Exception as error:  # noqa: BLE001 - a source is the user's; and a later checkpoint says more
                    self._warn(f"task {snapshot.task}: its sources did not hear of {completed.id}: {error}")

    def interrupt_all(self) -> None:
        """Everything is about to be stopped."""
        for query in list(self._queries.values()):
            query.interrupt()

    def close(self) -> None:
        """Stop whatever is still up."""
        for query in list(self._queries.values()):
            query.stop()
        self._listener.close()
        self._loud_again()

    def queries(self) -> dict[TaskId, Query]:
        """The run of each task that was started last."""
        with self._lock:
            return dict(self._queries)

    def relaunch(self, query: Query) -> None:
        """Start the query of a run again, which waits for a time that the machine's clock has gone back behind."""
        work = query.work
        self._warn(f"task {work.task}: the clock of this machine was set back, so its query is started again")

        def ready() -> None:
            self._gates.hold(work.generation, work.task)
            self._sizes.begin(work.task)

        query.relaunch(ready)

    def error_of(self, task: TaskId, run: Run) -> BaseException | None:
        """What a task's last run died of, if it was raised in this process."""
        query = self._queries.get(task)
        return query.error if query is not None and query.work.run == run else None

    def fail(self, generation: Generation, task: TaskId, error: InternalError) -> None:
        """What a task holds is not to be trusted: its run has failed. Raised if there is none that could tell so.

        In a generation that is over nobody trusts it anyway.
        """
        query = self._queries.get(task)
        if query is None or (query.work.generation == generation and query.ended):
            raise error
        if query.work.generation == generation:
            query.fail(error)

    def run_of(self, generation: Generation, task: TaskId, batch: Batch) -> Run | Past:
        """The run that wrote what counts of a committed batch. ``InternalError`` if it is not known."""
        return self.batch_runs.run_of(generation, task, batch)

    def committed_runs(self, generation: Generation, task: TaskId) -> Mapping[Batch, Run]:
        """For each committed batch that a sink may not have committed yet, the run that counts.

        ``InternalError`` if one is not known.
        """
        last = layout.committed(self._root / task_directory(task, generation))
        return self.batch_runs.runs(generation, task, last)

    def settled(self, generation: Generation, sink: SinkId, through: Batch) -> None:
        """A sink has committed the batches through ``through``: nobody asks for them on its behalf again.

        Not a moment before: what is pre-committed and not committed yet looks like what a dead run left, but for its
        run.
        """
        task = self._graph.owner[sink]
        with self._lock:
            self._settled[generation, sink] = through
            floor = min(self._settled.get((generation, each), NO_BATCH) for each in self._graph.by_id[task].sinks)
        self.batch_runs.settle(generation, task, floor)
        query = self._queries.get(task)
        if query is not None:
            query.tell_news()

    def inputs(
        self, generation: Generation, task: TaskId, after: Batch, through: Batch
    ) -> tuple[Mapping[str, Range] | None, Mapping[str, Range] | None]:
        """What a task has read between two batches, of its sources and of its channels."""
        query = self._root / task_directory(task, generation)
        uids = [uid for uid, _ in self._sources(self._planned[task])]
        return inputs_of(lambda batch: layout.read_offsets(query, batch), uids, after, through)

    def _of(self, order: e.StartTask | e.StopTask | e.AskTask | e.AdmitBatch) -> Query | None:
        query = self._queries.get(order.task)
        if query is None or (query.work.generation, query.work.run) != (order.generation, order.run):
            return None
        return query

    # -- rebuilding ----------------------------------------------------------------------------------------------------

    def _make_ready(self, order: e.StartTask, base: CheckpointId | None, there: Query | None) -> tuple[Batch, ...]:
        """See to it that there is a directory to go on in, and say where the inputs stand before the first batch."""
        if not order.in_place:
            self._rebuild(order, base)
            begun = NO_BATCH if order.snapshot is None else order.snapshot.batch
            self.batch_runs.restore(order.generation, order.task, begun)
            return order.positions
        if there is None or there.work.generation != order.generation:
            raise ExternalError(f"task {order.task} was never rebuilt: the whole job goes back")
        return there.work.begin

    def _rebuild(self, order: e.StartTask, base: CheckpointId | None) -> None:
        """Make the directory of a new generation, from a snapshot or empty, and put what is in flight before it."""
        query = self._root / task_directory(order.task, order.generation)
        inputs = self._graph.inputs[order.task]
        in_flight = _pair(inputs, order.in_flight)
        for channel, held in in_flight:
            self._put_in_flight(order.generation, channel, held, base)
        if order.snapshot is None or order.snapshot.batch == NO_BATCH:
            shutil.rmtree(query, ignore_errors=True)
            query.mkdir(parents=True)
            return
        table = self._storage.table(base)
        files = {name: table[name] for name in order.snapshot.files}
        positions = {channel.id: position for channel, position in zip(inputs, order.positions, strict=True)}
        sources = rebuild.Sources(self._root, self._storage.fetch)
        renamed = {held.channel: channel.id for channel, held in in_flight}
        known = rebuild.rebuild(sources, query, files, order.snapshot.batch, positions, renamed)
        self._refuse_other_backend(order.task, query, order.snapshot.batch)
        self._advise_on_partitions(order.task, query, order.snapshot.batch)
        where = task_directory(order.task, order.generation)
        if self._storage.fetch is None:  # Links in the storage itself: whole, and there for good.
            self._snapshots.know({f"{where}/{name}": facts for name, facts in known.items()})

    def _refuse_other_backend(self, task: TaskId, query: Path, batch: Batch) -> None:
        """Spark goes on with the state store that a query began with, whatever the session says, and only warns."""
        offsets = layout.read_offsets(query, batch)
        now = self._spark.conf.get(layout.PROVIDER, None)
        if self._planned[task].stateful and (why := fit.other_backend(task, offsets, now)) is not None:
            raise BadStorage(why)

    def _advise_on_partitions(self, task: TaskId, query: Path, batch: Batch) -> None:
        began_with = layout.read_offsets(query, batch).partitions()
        if self._planned[task].stateful and began_with is not None:
            text = partitions.advice_on_restored(task, began_with, partitions.cores_of(self._spark))
            if text is not None and task not in self._advised:
                self._advised.add(task)
                self._warn(text)

    def _put_in_flight(
        self, generation: Generation, channel: Channel, held: InFlight, base: CheckpointId | None
    ) -> None:
        """Link the segments that stood in a channel into the new generation's, before anything is written there."""
        directory = segments.directory_of(channel.upstream, generation)
        log = Segments(self._root / directory, channel.id)
        sources = rebuild.Sources(self._root, self._storage.fetch)
        table = self._storage.table(base)
        for entry in self._storage.segments(base, held):
            moved = []
            for name, size in entry.files:
                inside = re.sub(r"^.*channels/[^/]+/g[0-9]+/", "", name)
                sources.bring(name, self._root / directory / inside, table[name])
                moved.append((inside, size))
            log.write(SegmentEntry(entry.batch, entry.run, tuple(moved)))

    # -- work ----------------------------------------------------------------------------------------------------------

    def _work(self, order: e.StartTask, begin: tuple[Batch, ...]) -> QuerySpec:
        task = self._planned[order.task]
        inputs = self._graph.inputs[order.task]
        directory = self._root / task_directory(order.task, order.generation)
        sources = self._sources(task)

        def load() -> list[DataFrame]:
            trigger_ms = self._trigger_ms(task)
            frames = [source.load(self._spark, trigger_ms) for _, source in sources]
            for channel, position in zip(inputs, begin, strict=True):
                frames.append(self._read_channel(order, channel, position, alone=not sources))
            return frames

        def output(frames: list[DataFrame]) -> DataFrame:
            given: dict[tuple[str, int], DataFrame] = {}
            for (uid, _), frame in zip(sources, frames, strict=False):
                given[uid, -1] = frame
            for channel, frame in zip(inputs, frames[len(sources) :], strict=True):
                planned = self._channels[channel.id]
                given[planned.consumer, planned.index] = frame
            return evaluate(task.trunk, given)

        def source_ended(offsets: layout.Offsets) -> bool:
            own = offsets.of_sources()
            return bool(sources) and all(source.ended(line) for (_, source), line in zip(sources, own, strict=True))

        return QuerySpec(
            generation=order.generation,
            task=order.task,
            run=order.run,
            name=f"{self._job}/{order.task}/g{order.generation}/r{order.run}",
            directory=directory,
            channels=tuple(channel.id for channel in inputs),
            begin=begin,
            inputs=load,
            output=output,
            write=lambda frame, batch: self._write(order, task, frame, batch),
            on_commit=lambda batch: self._committed(order, batch),
            on_stop=lambda: self._gates.release(order.generation, order.task),
            source_ended=source_ended,
            output_mode=task.output_mode,
            trigger_ms=self._trigger_ms(task),
            stateful=sum(self._analysis[node.uid].stateful for node in task.trunk),
            resize=lambda query, batch, took_ms: self._sizes.resize(order.task, directory, query, batch, took_ms),
            still=lambda query: not inputs and _still(query, [source for _, source in sources]),
            check=lambda: _check_sources(sources, directory),
        )

    def _sources(self, task: PlannedTask) -> list[tuple[str, Source]]:
        """The task's own sources, in the order in which Spark finds them in the query: from its end, left to right."""
        nodes = {node.uid: node for node in task.trunk}
        found: list[tuple[str, Source]] = []

        def visit(node: Node) -> None:
            if isinstance(node.what, Source):
                found.append((node.uid, node.what))
            for uid in node.inputs:
                if uid in nodes:
                    visit(nodes[uid])

        visit(task.trunk[-1])
        return found

    def _count_rows(self, task: TaskId, begin: Sequence[str], end: Sequence[str]) -> list[int] | None:
        """The rows of each of the task's sources between two entries of the offset log, if all of them can tell."""
        found = []
        for place, (_, source) in enumerate(self._sources(self._planned[task])):
            rows = source.rows_between(begin[place] if begin else None, end[place])
            if rows is None:
                return None
            found.append(rows)
        return found

    def _trigger_ms(self, task: PlannedTask) -> int | None:
        wanted = [source.trigger_ms for _, source in self._sources(task) if source.trigger_ms is not None]
        return min(wanted, default=self._batch_interval_ms)

    def _read_channel(self, order: e.StartTask, channel: Channel, position: Batch, *, alone: bool) -> DataFrame:
        end = self._planned[channel.upstream].trunk[-1].uid
        known = self._analysis[end]
        frame = reader.load(
            self._spark,
            directory=self._root / segments.directory_of(channel.upstream, order.generation),
            channel=channel.id,
            reader=order.task,
            generation=order.generation,
            position=position,
            gates=self._gates.address,
            schema=known.schema,
            alone=alone,
        )
        if known.watermark is not None:
            column, delay_ms = known.watermark
            frame = frame.withWatermark(column, f"{delay_ms} milliseconds")
        return frame

    # -- batches -------------------------------------------------------------------------------------------------------

    def _write(self, order: e.StartTask, task: PlannedTask, frame: DataFrame, batch: Batch) -> None:
        try:
            self._write_batch(order, task, frame, batch)
        except HeadgateError:
            raise
        except Exception as error:
            scratch = str(self._spark.conf.get("spark.local.dir", None) or tempfile.gettempdir()).partition(",")[0]
            ours = "the storage" if self._storage.fetch is None else "the working directory"
            places = {ours: self._root, "Spark's local directory": Path(scratch)}
            if (told := room.blame(error, places)) is not None:
                raise ExternalError(told) from error
            raise

    def _write_batch(self, order: e.StartTask, task: PlannedTask, frame: DataFrame, batch: Batch) -> None:
        self.batch_runs.write(order.generation, order.task, batch, order.run)
        if not task.writes_segment:
            branch = task.branches[0]
            self._invoke(order, SinkId(branch.sink.uid), frame, batch)
            return
        directory = segments.segment_directory(
            self._root / segments.directory_of(order.task, order.generation), batch, order.run
        )
        frame.sparkSession.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
        # Where executors are apart, one that is given up for dead may still move its file: only the job's commit may.
        algorithm = "2" if str(self._spark.sparkContext.master).startswith("local[") else "1"
        writer = frame.write.mode("overwrite").option("mapreduce.fileoutputcommitter.algorithm.version", algorithm)
        place = f"file://{directory}"  # As it is: Hadoop decodes nothing.
        writer.parquet(place)
        for branch in task.branches:
            rows = frame.sparkSession.read.schema(frame.schema).parquet(place)
            end = task.trunk[-1].uid
            self._invoke(order, SinkId(branch.sink.uid), evaluate(branch.operators, {}, {end: rows}), batch)

    def _invoke(self, order: e.StartTask, sink: SinkId, frame: DataFrame, batch: Batch) -> None:
        write_id = WriteId(job=self._job, sink=sink, generation=order.generation, batch=batch, run=order.run)
        while not self._sinks[sink].has_room(write_id):
            self._tell(SinkFull(order.generation, sink))
            query = self._of(order)
            if query is None:
                raise Stopped
            query.wait_for_news(LOOK_FOR_ROOM_S)
        self._sinks[sink].begin_transaction(write_id)
        with tallying() as tally:
            self._sinks[sink].invoke(write_id, frame)
        self._storage.receipts.wrote(write_id, tally.known)

    def _committed(self, order: e.StartTask, batch: Batch) -> None:
        """Enter a committed batch into the logs of its readers. A segment that only sinks read has done its work."""
        run = self.run_of(order.generation, order.task, batch)
        task = self._planned[order.task]
        if isinstance(run, Past) or not task.writes_segment:
            return
        directory = self._root / segments.directory_of(order.task, order.generation)
        channels = self._graph.outputs[order.task]
        for channel in channels:
            entry = Segments(directory, channel.id).commit(batch, run)
            if entry is not None:
                about = {"generation": order.generation, "task": order.task, "channel": channel.id, "batch": batch}
                self._tell(Observation("segment", {**about, "bytes": entry.size}))
        if not channels:
            shutil.rmtree(directory / str(batch), ignore_errors=True)
        if not task.branches:
            self.batch_runs.settle(order.generation, order.task, Batch(batch - 1))

    def _tell_of_query(self, fact: Event) -> None:
        """Pass on what a query says. Of one that fails because Spark itself is gone nothing is to be tried again."""
        if isinstance(fact, TaskFailed) and not self._alive():
            return
        self._pacing.heard(fact)
        self._tell(fact)

    def _warn(self, text: str) -> None:
        self._tell(Observation("warning", {"text": text}))

    def _measured(self, task: TaskId, directory: Path) -> Callable[[str, float, Any], None]:
        sources = tuple(uid for uid, _ in self._sources(self._planned[task]))

        def measure(kind: str, value: float, about: Any) -> None:
            if kind in ("wait_ms", "held_up_ms"):
                self._sizes.waited(task, about, value)
            elif kind == "progress":
                self._sizes.progressed(task, directory, about)
            fields = {"task": task, "value": value, "about": about, "batch_rows": self._sizes.rows(task)}
            if kind == "progress":
                fields |= {"said": said(about), "sources": sources}
            self._tell(Observation(kind, fields))

        return measure


class Pacing:
    """Keeps starts apart once the machine has shown to be too busy for them: each brings processes of its own."""

    def __init__(self) -> None:
        """All may start at once."""
        self._lock = threading.Lock()
        self._apart_s = 0.0
        self._next_s = 0.0

    def heard(self, fact: Event) -> None:
        """Learn from what a run tells."""
        with self._lock:
            if isinstance(fact, TaskFailed) and fact.failure.message == TOO_BUSY:
                self._apart_s = min(APART_MAX_S, max(APART_S, 2 * self._apart_s))
            elif isinstance(fact, BatchCommitted):
                self._apart_s = 0.0

    def next(self) -> float:
        """For how long the next start must wait."""
        with self._lock:
            now_s = time.monotonic()
            at_s = max(now_s, self._next_s) if self._apart_s else now_s
            self._next_s = at_s + self._apart_s
            return at_s - now_s


APART_S, APART_MAX_S = 2.0, 15.0


def _check_sources(sources: list[tuple[str, Source]], query: Path) -> None:
    """Let every source of a task say whether it can go on, and keep what it must remember."""
    last = layout.committed(query)
    current: list[str | None] = [None] * len(sources)
    if last != NO_BATCH:
        current[:] = layout.read_offsets(query, last).of_sources()
    for (uid, source), offset in zip(sources, current, strict=True):
        before = layout.remembered(query, uid)
        now = source.check(offset, before)
        if now is not None and now != before:
            layout.remember(query, uid, now)


def _pair(inputs: tuple[Channel, ...], held: tuple[InFlight, ...]) -> list[tuple[Channel, InFlight]]:
    """What was in flight on each channel: by its name, or, where tasks were renamed, by its place."""
    by_name = {one.channel: one for one in held}
    if all(channel.id in by_name for channel in inputs) or len(held) != len(inputs):
        return [(channel, by_name[channel.id]) for channel in inputs if channel.id in by_name]
    return list(zip(inputs, held, strict=True))


def _still(query: StreamingQuery, sources: Sequence[Source]) -> bool:
    """Let a query read nothing more of its sources, if all of them keep to that."""
    if not all(source.is_still_at_end for source in sources):
        return False
    try:
        set_limits(query, [0] * len(sources))
    except CannotSize:
        return False
    return True
