"""What a source is.

One rule: a source keeps nothing in memory that matters. Where its task stands is the offset in Spark's own log; a
source object that was made a moment ago goes on from any offset that an earlier one reached.
"""

from abc import ABC, abstractmethod

from pyspark.sql import DataFrame, SparkSession


class Source(ABC):
    """A way into the job. Subclass it to connect something new.

    The object is made when the job is described, before there is a Spark session, and lives in the Spark driver.
    """

    @property
    @abstractmethod
    def replayable(self) -> bool:
        """Whether a range of offsets always gives the same records. Exactly-once refuses a source that does not.

        Asked once, when the job is planned.
        """

    @abstractmethod
    def load(self, spark: SparkSession, trigger_ms: int | None) -> DataFrame:
        """Make the streaming DataFrame that a task begins with. ``trigger_ms`` is the interval at which it will be run.

        When: each time the task's query starts, and so again after every crash and restore. Where: on the driver. It
        must not read records or remember an offset: Spark goes on from the offset in its log, and asks for the
        initial one only if there is none.
        """

    def open(self) -> None:  # noqa: B027 - most sources need nothing to be there
        """Check that the source can work: that the other side answers, and has what will be read.

        When: once per process, before there is a Spark session and before anything in the storage changes. What cannot
        work is refused here, within seconds: with a ``UserError``, or an ``ExternalError`` if another system is away.
        """

    def check(self, offset: str | None, remembered: str | None) -> str | None:  # noqa: ARG002 - for those who override it
        """Check that the source can be read on from ``offset``, and return what it must remember.

        ``offset`` is where the last committed batch ended, as in Spark's offset log; None: there is no such batch.
        ``remembered`` is what the source returned here before. It is kept beside the offset, so that a checkpoint
        brings back both; None: there is nothing.

        When: each time the task's query starts, and so again after every crash and restore, just before ``load``.
        Where: on the driver. A ``UserError`` ends the job; after an ``ExternalError`` the restart strategy decides.
        """
        return remembered

    @property
    def packages(self) -> tuple[str, ...]:
        """Maven coordinates (``group:artifact:version``) of what Spark's processes need for this source. Mostly none.

        Each means one jar. Asked on the driver before there is a Spark session.
        """
        return ()

    @abstractmethod
    def describe(self) -> str:
        """Say in a few words what this is and where, for ``headgate plan``. May run without Spark, and at any time."""

    @property
    def trigger_ms(self) -> int | None:
        """The interval between micro-batches that this source would like. None: one after the other.

        Asked on the driver each time the task's query starts, before ``load``.
        """
        return None

    @property
    def sizes_itself(self) -> bool:
        """Whether Headgate may say how many rows a batch has, and change that while the query runs.

        If so, the stream that ``load`` makes keeps to the limit that Spark hands it (``ReadMaxRows``), and begins with
        ``core.sizing.START_ROWS``. Asked on the driver each time the task's query starts. By default batches are as the
        source makes them.
        """
        return False

    def rows_between(self, begin: str | None, end: str) -> int | None:  # noqa: ARG002 - for those who override it
        """About how many rows there are from one offset to another, if that can be told from them alone.

        ``begin`` is None for the beginning of the source. Asked on the driver while a batch is under way, so be quick:
        with it, batches that size themselves come to their size in half as many steps.
        """
        return None

    def ended(self, offset: str) -> bool:  # noqa: ARG002 - for those who override it
        """Whether there is nothing after ``offset``, and never will be. ``offset`` is JSON, as in Spark's offset log.

        When: after every committed batch, with the offset it consumed through, and when a run starts at an offset.
        Where: on the driver, between two batches, so be quick. After a crash it is asked again for the same offset,
        and must say the same. A source without an end, which is the default, says no.
        """
        return False

    @property
    def is_still_at_end(self) -> bool:
        """Whether the stream that ``load`` made, at a limit of no rows, gives none and answers so at once.

        If so, a query that reads nothing else need not be launched again, once this has ``ended``, for what time has
        left open. By default it is.
        """
        return False

    def notify_completed(self, offset: str) -> None:  # noqa: B027 - most sources have nothing to do
        """Learn that a checkpoint which consumed through ``offset`` is complete: no failure goes back before it.

        When: after a checkpoint's publication, once or more often, or never if the process dies there; a later
        checkpoint's word covers an earlier one's. Where: on the driver. It is for telling the other side how far the
        job has come, never for correctness: a user may still restore an older checkpoint that was kept, so whatever is
        deleted here is out of its reach. By default nothing is done.
        """
