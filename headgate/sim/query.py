"""A stand-in for one run of one Spark streaming query.

One rule: it behaves as Spark does. It works in micro-batches: the input range is written down before the batch runs, a
batch that fails is run again by the next run with the same range and maybe another outcome, and once committed nothing
is taken back. It reads no further than its gates.
"""

from typing import TYPE_CHECKING

from headgate.core.events import (
    BatchCommitted,
    BatchEntered,
    OutputsWritten,
    Reported,
    SinkFull,
    SourceEnded,
    TaskEnded,
    TaskFailed,
    TaskStarted,
)
from headgate.core.fencing import Order
from headgate.core.ids import Batch, Generation, Run, TaskId
from headgate.core.records import Boundary
from headgate.core.restart import Failure, FailureClass
from headgate.sim.disk import Planned, SimRow, TaskImage, Work, weigh

if TYPE_CHECKING:
    from headgate.sim.world import Process

IDLE_BATCH_CHANCE = 0.03
"""How often a query with nothing to read runs a batch all the same, as Spark does for timers and watermarks."""


LOOK_MS = 10
"""A batch for which a sink has no room looks this often whether it has."""


class SimulatedQuery:
    """One run of a task's query inside one leader's process."""

    __slots__ = (
        "alive",
        "busy",
        "draining",
        "ended",
        "exhausted",
        "failure",
        "generation",
        "inputs",
        "lags_ms",
        "outlives_ms",
        "outputs",
        "process",
        "run",
        "sinks",
        "skip",
        "slow",
        "source",
        "task",
        "told_end",
        "total",
        "up",
        "waiting",
        "work",
        "writing",
    )

    def __init__(
        self, process: "Process", generation: int, task: str, run: int, *, skip: bool, exhausted: bool
    ) -> None:
        """A run that is about to start. It reads and writes what ``process`` knows of the graph."""
        graph = process.graph
        self.process = process
        self.generation = generation
        self.task = task
        self.run = run
        self.skip = skip
        self.exhausted = exhausted
        """It comes up without reading, and waits to be drained."""
        self.inputs = tuple(channel.id for channel in graph.inputs[TaskId(task)])
        self.outputs = tuple(channel.id for channel in graph.outputs[TaskId(task)])
        self.sinks = graph.by_id[TaskId(task)].sinks
        self.source = int(task[1:])
        self.total = process.world.plan.records.get(TaskId(task), 0)
        self.work: Work = process.world.disk.works[generation, task]
        self.alive = True
        self.up = False
        self.busy = False
        self.draining = False
        self.ended = False
        self.told_end = False
        self.failure: Failure | None = None
        self.slow = 1
        self.waiting: Planned | None = None
        self.writing: Planned | None = None
        self.lags_ms = 0
        """How much later an executor that was given up for lost writes the next batch once more. 0: none does."""
        self.outlives_ms = 0
        """How much later its executors write what they had begun to, if the query dies meanwhile. 0: they die too."""

    # -- start and end ---------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Come up: find out what is committed, and run again what was not."""
        if self.process.frozen(self.start) or not self.alive:
            return
        self.up = True
        planned = self.work.planned
        if planned is not None and self.skip:
            self._skip(planned)
            planned = None
        self.process.tell(TaskStarted(Generation(self.generation), TaskId(self.task), Run(self.run), self.boundary()))
        if planned is not None and not self.exhausted:
            self._run_again(planned)
        else:
            self.poke()

    def _run_again(self, planned: Planned) -> None:
        self.busy = True
        self.process.world.at(self._pace(4), self._enter, planned)

    def kill(self, failure: Failure | None) -> None:
        """Die. With a failure, Spark reports it."""
        if not self.alive:
            return
        self.alive = False
        self.failure = failure
        if failure is not None:
            chance = self.process.world.rng.random()
            self.process.tell(
                TaskFailed(Generation(self.generation), TaskId(self.task), Run(self.run), failure, chance)
            )

    def stop(self, *, drain: bool) -> None:
        """Stop at once, or once there is nothing left to do."""
        if drain:
            self.draining = True
            self.poke()
        elif self.alive:
            self._end()

    def _end(self) -> None:
        self.alive = False
        self.ended = True
        self.process.tell(TaskEnded(Generation(self.generation), TaskId(self.task), Run(self.run), self.boundary()))

    def report(self) -> Reported:
        """All that this run has to say."""
        return Reported(
            Generation(self.generation),
            TaskId(self.task),
            Run(self.run),
            self.boundary(),
            entered=Batch(self.waiting.batch) if self.waiting is not None and self.alive else None,
            source_ended=self.total > 0 and self.work.committed.offset >= self.total,
            ended=self.ended,
            failure=self.failure,
            chance=self.process.world.rng.random(),
        )

    def boundary(self) -> Boundary:
        """Where the task stands on disk."""
        image = self.work.committed
        return Boundary(Batch(image.batch), image.positions)  # type: ignore[arg-type]

    # -- batches -------------------------------------------------------------------------------------------------------

    def poke(self) -> None:
        """Something may have changed: plan the next batch if there is anything to read."""
        if self.busy or not self.alive or not self.up or (self.exhausted and not self.draining):
            return
        if self.work.planned is not None:
            self._run_again(self.work.planned)
            return
        image = self.work.committed
        world = self.process.world
        rng = world.rng
        gates = world.disk.gates
        positions = []
        data = False
        for channel, position in zip(self.inputs, image.positions, strict=True):
            room = gates.get((self.generation, channel), -1) - position
            if room > 0:
                data = True
                position += room if rng.random() < 0.5 else 1 + int(rng.random() * room)  # noqa: PLW2901
            positions.append(position)
        offset = image.offset
        if offset < self.total and not self.draining:
            data = True
            offset = min(self.total, offset + 1 + int(rng.random() * 3))
        if not data:
            if self.draining and world.windows and not image.over:
                self._plan(Planned(image.batch + 1, offset, tuple(positions), over=True))
                return
            if self.draining:
                self._end()
                return
            if self.total and not self.told_end:
                self.told_end = True
                self.process.tell(SourceEnded(Generation(self.generation), TaskId(self.task), Run(self.run)))
            if rng.random() > IDLE_BATCH_CHANCE:
                return
        self._plan(Planned(image.batch + 1, offset, tuple(positions)))

    def _plan(self, planned: Planned) -> None:
        self.busy = True
        self.work.planned = planned
        self.process.world.at(self._pace(6), self._enter, planned)

    def _pace(self, base: int) -> int:
        return (1 + int(self.process.world.rng.random() * base)) * self.slow

    def _enter(self, planned: Planned) -> None:
        if self.process.frozen(self._enter, planned) or not self.alive:
            return
        boundary = Boundary(Batch(planned.batch), planned.positions)  # type: ignore[arg-type]
        self.waiting = planned
        self.process.tell(BatchEntered(Generation(self.generation), TaskId(self.task), Run(self.run), boundary))

    def admit(self, batch: int) -> None:
        """The batch that waits in the hook may write."""
        planned = self.waiting
        if self.alive and planned is not None and planned.batch == batch:
            self.waiting = None
            if self._lead(planned):
                self.writing = planned
                self.process.world.at(self._pace(10), self._write, planned)

    def _write(self, planned: Planned) -> None:
        if self.process.frozen(self._write, planned):
            return
        world = self.process.world
        if not self.alive:
            if world.outliving_ms:
                world.at(int(world.rng.random() * world.outliving_ms), self._write_late, planned.batch)
            self.outlive()
            return
        full = [s for s in self.sinks if not world.sinks[s].has_room((self.generation, planned.batch, self.run))]
        if full:
            for sink in full:
                self.process.tell(SinkFull(Generation(self.generation), sink))
            world.at(LOOK_MS, self._write, planned)
            return
        self.writing = None
        read = self._compute(planned)
        if read is None:
            return
        taken, numbers, rows, kept = read
        for sink in self.sinks:
            world.sinks[sink].write(self.generation, planned.batch, self.run, rows)
            if not world.tables[sink].merge(self._order(planned), rows):
                self._fenced(sink)
                return
            if self.lags_ms:
                world.tables[sink].expect(world, self.lags_ms, self._order(planned), rows)
        self.lags_ms = 0
        image = self.work.committed
        after = TaskImage(
            batch=planned.batch,
            run=self.run,
            offset=planned.offset,
            positions=planned.positions,
            taken=tuple(taken),
            skipped=image.skipped,
            read=image.read + sum(numbers) + len(numbers),
            given=image.given + weigh(rows),
            files=world.disk.next_files(self.generation, self.task, image.files, planned.batch),
            kept=kept,
            over=planned.over or image.over,
        )
        self.process.tell(
            OutputsWritten(Generation(self.generation), TaskId(self.task), Run(self.run), Batch(planned.batch))
        )
        world.at(self._pace(4), self._commit, after, rows)

    def _compute(self, planned: Planned) -> tuple[list[int], range, list[SimRow], tuple[SimRow, ...]] | None:
        """What a batch takes in and gives: the sums, the numbers of its own source, the rows that come out, and those
        that stay in open windows. None if something is gone.
        """
        image = self.work.committed
        nonce = self.process.world.rng.getrandbits(31)
        rows: list[SimRow] = []
        taken = []
        for index, channel in enumerate(self.inputs):
            fresh = self._read(channel, image.positions[index], planned.positions[index])
            if fresh is None:
                return None
            taken.append(image.taken[index] + weigh(fresh))
            code = int(channel[1:]) + 1
            rows += [(s, number, path * 31 + code, tag * 7 ^ nonce) for s, number, path, tag in fresh]
        numbers = range(image.offset, planned.offset)
        rows += [(self.source, number, 0, nonce) for number in numbers]
        if not self.process.world.windows:
            return taken, numbers, rows, ()
        if planned.over:
            return taken, numbers, [*image.kept, *rows], ()
        return taken, numbers, list(image.kept), tuple(rows)

    def _write_late(self, batch: int) -> None:
        """An executor that nobody waits for any more comes to its end. Nobody may ever see what it wrote."""
        for sink in self.sinks:
            self.process.world.sinks[sink].write(self.generation, batch, self.run, [(self.source, -1, 0, 0)])

    def _commit(self, image: TaskImage, rows: list[SimRow]) -> None:
        if self.process.frozen(self._commit, image, rows) or not self.alive:
            return
        world = self.process.world
        world.checker.runs_ahead(self.generation, self.task, image.batch)
        world.checker.reads(self.generation, self.task, self.work.committed, image)
        world.disk.commit(self.generation, self.task, self.outputs, image, rows)
        self.process.tell(
            BatchCommitted(Generation(self.generation), TaskId(self.task), Run(self.run), self.boundary())
        )
        world.at(self._pace(3), self._idle)

    def _idle(self) -> None:
        if self.process.frozen(self._idle):
            return
        self.busy = False
        self.poke()

    # -- rows that are written at once ---------------------------------------------------------------------------------

    def _order(self, planned: Planned) -> Order:
        return Generation(self.generation), Batch(planned.batch), Run(self.run)

    def _lead(self, planned: Planned) -> bool:
        """Take the leader row of every table before anything is written."""
        for sink in self.sinks:
            if not self.process.world.tables[sink].lead(self._order(planned)):
                self._fenced(sink)
                return False
        return True

    def _fenced(self, sink: str) -> None:
        """A table says that this attempt comes too late. That ends the job, and whoever leads it cannot be told so."""
        what = f"{self.task} is fenced off from {sink}"
        self.process.world.missing(self.generation, what)
        self.kill(Failure(FailureClass.USER, what))

    def outlive(self) -> None:
        """The query is dead, or its driver will not wake in time: its executors write what they had begun to, later."""
        planned, self.writing = self.writing, None
        if planned is None or not self.outlives_ms or self.work.committed.batch != planned.batch - 1:
            return
        world = self.process.world
        read = self._compute(planned) if self._can_read(planned) else None
        if read is not None:
            for sink in self.sinks:
                world.tables[sink].expect(world, self.outlives_ms, self._order(planned), read[2])
            world.at(self.outlives_ms, self._write_late, planned.batch)

    def _can_read(self, planned: Planned) -> bool:
        """Whether all that a batch reads is there. Who was forgotten may come too late for that, too."""
        return all(
            batch in self.process.world.disk.segments.get((self.generation, channel), {})
            for channel, after, through in zip(
                self.inputs, self.work.committed.positions, planned.positions, strict=True
            )
            for batch in range(after + 1, through + 1)
        )

    def _read(self, channel: str, after: int, through: int) -> list[SimRow] | None:
        segments = self.process.world.disk.segments.get((self.generation, channel), {})
        rows: list[SimRow] = []
        for batch in range(after + 1, through + 1):
            segment = segments.get(batch)
            if segment is None:
                what = f"{self.task} reads segment {batch} of {channel}, which is not there"
                self.process.world.missing(self.generation, what)
                self.kill(Failure(FailureClass.EXTERNAL, what))
                return None
            rows += segment
        return rows

    def _skip(self, planned: Planned) -> None:
        """At-most-once: the batch that was under way counts as committed, without having done anything."""
        image = self.work.committed
        world = self.process.world
        skipped = tuple(
            image.skipped[index] + weigh(self._read(channel, image.positions[index], planned.positions[index]) or [])
            for index, channel in enumerate(self.inputs)
        )
        numbers = range(image.offset, planned.offset)
        world.checker.skipped(self.task, self.source, numbers, planned, image, self.inputs, self.generation)
        after = TaskImage(
            batch=planned.batch,
            run=self.run,
            offset=planned.offset,
            positions=planned.positions,
            taken=image.taken,
            skipped=skipped,
            read=image.read + sum(numbers) + len(numbers),
            given=image.given,
            files=world.disk.next_files(self.generation, self.task, image.files, planned.batch),
            kept=image.kept,
            over=image.over,
        )
        world.disk.commit(self.generation, self.task, self.outputs, after, [])
