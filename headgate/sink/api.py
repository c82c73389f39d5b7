"""The two-phase interface of a sink.

One rule: between ``invoke`` and ``commit`` nothing that was written can be seen, and every hook may be called again
with the same arguments, in this process or in another, as if it had been called once.

For one transaction the hooks come in this order::

    open                                          once per process, before anything runs
    has_room                                      for each batch, until it says yes
    begin_transaction, invoke                     for each batch, by each run of it
    pre_commit                                    for a checkpoint: pre-commits the batches since the last pre-commit
    commit                                        after the checkpoint is complete
    recover_and_commit                            the same, by a process that starts after a crash
    abort                                         what will never be committed is thrown away
    close                                         once per process, at its end, unless it is killed

All hooks run in the driver. ``has_room``, ``begin_transaction`` and ``invoke`` are called in the thread of the task's
query, the others in another thread: so a pre-commit or a commit of earlier batches may run while a later batch is being
written. Pre-commits of one sink come one at a time, and so do its commits, both in the order of checkpoints.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from pyspark.sql import DataFrame

from headgate.access import OWNER_ONLY
from headgate.core import fencing
from headgate.core.fencing import Order
from headgate.core.ids import Batch, CheckpointId, Generation, Run, SinkId


class Guarantee(Enum):
    """What a sink makes of a job that is itself exactly-once."""

    EXACTLY_ONCE = "exactly-once"
    """Readers see every row once."""
    EFFECTIVELY_ONCE = "effectively-once"
    """A row may be written again, over itself: in the end readers find every row once."""
    AT_LEAST_ONCE = "at-least-once"
    """Readers may see a row again after a failure."""


@dataclass(frozen=True)
class SinkContext:
    """Who the sink works for. Together with what the sink was built with, enough to find all it ever wrote."""

    job: str
    sink: SinkId
    incarnation: str = ""
    """New whenever the job's storage is begun anew, and then the numbers of generations begin anew too: so a name in
    the outside world has the incarnation in it, and one of an earlier incarnation never means this one."""
    staging: Path | None = None
    """A directory for this sink alone, which the driver and all executors have.

    It may be lost with its machine. What a commit needs of it, ``TwoPhaseSink.staged`` says.
    """
    checkpoint_timeout_ms: int = 0
    """A checkpoint that takes longer is given up."""
    directory_mode: int = OWNER_ONLY
    """The mode of directories that are made for rows which readers may not see yet."""
    begun_ms: int = 0
    """When the storage was begun anew, by the clock of whoever began it."""
    checkpoint_interval_ms: int | None = None
    """From the start of one checkpoint to the start of the next. None: only when asked for."""

    def version(self, write_id: "WriteId") -> int:
        """The order of an attempt as one number below 2^63, for a system that keeps what has the highest version.

        It is higher than that of every attempt before, also of earlier generations and of earlier incarnations.
        """
        return fencing.version(self.begun_ms, write_id.order)


@dataclass(frozen=True)
class StagedFile:
    """A file that waits in the sink's staging directory, and that a commit needs."""

    path: str
    """From ``SinkContext.staging`` on."""
    size: int
    checksum: int | None = None
    """CRC-32. None if nobody knows it."""
    pre_committed_ms: int = 0
    """When it was pre-committed, by the clock of who did; 0 if nobody knows. A file that is brought back is as old."""


@dataclass(frozen=True)
class WriteId:
    """The identity of what one run writes for one batch. A batch that is replayed is another attempt."""

    job: str
    sink: SinkId
    generation: Generation
    batch: Batch
    run: Run

    @property
    def order(self) -> Order:
        """What fences off attempts that come late: they have a lower one. Compare all of it, from left to right."""
        return self.generation, self.batch, self.run


class AbortScope(ABC):
    """What a sink throws away. It asks ``covers`` of all that it finds uncommitted, and needs to know no more."""

    @abstractmethod
    def covers(self, write_id: WriteId) -> bool:
        """Whether nobody will ever commit what was written under this id."""


@dataclass(frozen=True)
class FailedAttempts(AbortScope):
    """What runs before ``run`` wrote for batches that they did not commit.

    ``committed`` has the run of every committed batch of this generation that the sink may not have committed yet.
    """

    generation: Generation
    run: Run
    committed: Mapping[Batch, Run] = field(default_factory=dict)

    def covers(self, write_id: WriteId) -> bool:
        """Whether nobody will ever pre-commit this attempt."""
        dead = write_id.generation == self.generation and write_id.run < self.run
        return dead and self.committed.get(write_id.batch) != write_id.run


@dataclass(frozen=True)
class StaleGenerations(AbortScope):
    """Whatever generations before ``below`` wrote. All of it that was decided to be committed is committed."""

    below: Generation

    def covers(self, write_id: WriteId) -> bool:
        """Whether this attempt belongs to a generation that is over."""
        return write_id.generation < self.below


@dataclass(frozen=True)
class Unpublished(AbortScope):
    """What a deposed generation wrote after batch ``after``: no checkpoint names it, and none ever will."""

    generation: Generation
    after: Batch

    def covers(self, write_id: WriteId) -> bool:
        """Whether this attempt is of that generation, and came after its last checkpoint."""
        return write_id.generation == self.generation and write_id.batch > self.after


class TwoPhaseSink(ABC):
    """A sink with transactions.

    A sink is built by a plain call without side effects, and can be pickled until it is opened: any process that has
    the job's definition can open it and commit.
    """

    @property
    @abstractmethod
    def guarantee(self) -> Guarantee:
        """What the sink promises to its readers. Fixed when the sink is built."""

    @property
    def transaction_timeout_ms(self) -> int | None:
        """After how long the other system gives up an open transaction. None: it keeps it.

        Nothing is decided by it: ``headgate doctor`` tells which sinks come near it.
        """
        return None

    @abstractmethod
    def describe(self) -> str:
        """One line for people: what is written, and where to. May be called at any time, also before ``open``."""

    @property
    def place(self) -> str | None:
        """Where any reader finds what was written, as ``headgate audit`` takes places; without passwords.

        None: it cannot be told in this way, and receipts are not compared with what the sink has.
        """
        return None

    @abstractmethod
    def open(self, context: SinkContext) -> None:
        """Check that the sink can work, and make ready whatever it needs to exist.

        Once per process, in the driver, before any other hook and before any query starts. What cannot work is
        refused here, with a ``UserError``. After a crash the next process opens the sink again, and finds whatever was
        left: nothing of it may be shown, changed or thrown away here.
        """

    def has_room(self, write_id: WriteId) -> bool:
        """Whether this batch can be written before anything else is committed.

        In the driver, just before ``begin_transaction``. While it says no the batch waits, a checkpoint is taken early
        if that would free anything, and the question is asked again after every commit and once a second: so it must
        be cheap, and must not wait. It says no only for what a commit, or somebody else, will free.
        """
        del write_id
        return True

    @abstractmethod
    def begin_transaction(self, write_id: WriteId) -> None:
        """Make ready for what one run writes for one batch.

        Once per attempt, in the driver, just before ``invoke``. What was left by an attempt of the same name is gone
        afterwards. After a crash the attempt is never taken up again: its batch is replayed as another attempt, and
        this one is thrown away by ``abort``.
        """

    @abstractmethod
    def invoke(self, write_id: WriteId, dataframe: DataFrame) -> None:
        """Write the batch, apart from everything else, and out of the readers' sight.

        Once per attempt, in the driver; the rows are written by executors. It must run exactly one Spark action, and
        that action must compute all rows of ``dataframe``: a second one would update the state twice, and with none
        the state would not be written. When it returns, everything is written for good. If it raises, the batch
        fails, and is replayed as another attempt. If it is called again for the same attempt, that replaces what the
        first call wrote. After a crash, as ``begin_transaction``.
        """

    @abstractmethod
    def pre_commit(self, checkpoint: CheckpointId, generation: Generation, write_ids: Sequence[WriteId]) -> str:
        """Gather what the given attempts wrote, and return a committable, with which any process can commit it.

        Once per checkpoint that has something new for this sink, in the driver, in the order of checkpoints, after
        Spark has committed the batches. Each batch comes with the run that committed it; one that was left out has
        no attempt. A part may have been pre-committed before, for a checkpoint of which nobody heard: it is
        pre-committed again, and the earlier committable is never used. If the checkpoint is given up the committable
        stays good, and is committed with the next checkpoint that completes. If it raises, the checkpoint is given up,
        and what it would have pre-committed goes into the next pre-commit. After a crash a committable that no
        completed checkpoint names is never used. The committable becomes part of the checkpoint: keep it short, and
        free of anything that is true on one machine only.
        """

    def staged(self, committable: str) -> Sequence[StagedFile]:
        """The files in ``SinkContext.staging`` that ``commit`` will need. None for a sink that keeps rows elsewhere.

        In the driver, after ``pre_commit`` and around ``commit``. Where the job's storage is not its working directory,
        these files are copied into the storage before the checkpoint counts. If one is gone, or not what was
        pre-committed, it is brought back from there before ``commit``; after it the copies are deleted.
        """
        del committable
        return ()

    def content_hash(self, committable: str) -> str | None:
        """A sum over all that was pre-committed, which does not depend on its order, and which anybody who reads what
        the sink has can work out again. In the driver, after ``pre_commit``: it must cost no reading of rows.

        None: the sink has none.
        """
        del committable
        return None

    @abstractmethod
    def commit(self, committable: str) -> None:
        """Show what was pre-committed.

        In the driver, after the checkpoint is complete, in the order of checkpoints; again and again until it returns.
        A repeat must be harmless at any time: after a success, after being cut off half-way, while another process
        does the same, and after later transactions were committed. If something that was pre-committed is not there any
        more it must raise, never pass over it. After a crash the next process calls ``recover_and_commit`` before it
        starts any query.
        """

    def recover_and_commit(self, committable: str) -> None:
        """As ``commit``, for what another process pre-committed and may or may not have committed.

        In the driver, at the start of a generation, after ``open`` and before any query starts, once for each
        transaction that the newest completed checkpoint names; again until it returns.
        """
        self.commit(committable)

    @abstractmethod
    def abort(self, scope: AbortScope) -> None:
        """Throw away every attempt that ``scope`` covers, and nothing else.

        In the driver, after a run has died (``FailedAttempts``) and after a generation has begun
        (``StaleGenerations``), while queries run; again until it returns, and from time to time after that: an executor
        may outlive whoever it works for. So it must be cheap when nothing is there. Once more by a process that is
        deposed (``Unpublished``), while another leads. The sink itself finds what is there. It may find nothing. What a
        committable names that will still be committed is never covered. After a crash whatever is left goes with the
        next generation's ``StaleGenerations``.
        """

    def close(self) -> None:  # noqa: B027 - most sinks hold nothing
        """Let go of connections.

        Once, in the driver, when the process has done with the job. Nothing is committed or thrown away here. After a
        crash it was not called, and nobody may need it.
        """

    @property
    def packages(self) -> tuple[str, ...]:
        """Maven coordinates (``group:artifact:version``) of what Spark's processes need for this sink. Mostly none."""
        return ()
