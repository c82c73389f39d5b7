"""A job that runs in a thread of this process, for notebooks and programs.

One rule: it asks and shows what the commands do, by the same requests; nothing is decided here. The job goes on while
nobody waits for it, and ends with the process; the next run goes on from the last checkpoint.
"""

import contextlib
import os
import threading
import time
from typing import Any

from pyspark.sql import SparkSession

from headgate.core.effects import Outcome
from headgate.core.ids import CheckpointId
from headgate.errors import ExternalError, UserError
from headgate.job.api import Job, OnEvent
from headgate.run import live, start
from headgate.run.control import NotRunning
from headgate.run.exporting import absolute
from headgate.run.requests import REQUEST_S, Reply
from headgate.run.savepoints import path_of
from headgate.serve.process import ControlServer
from headgate.values import Duration, duration_ms
from headgate.view import job as view, text


class JobClient:
    """A job that was started: ask it, wait for it, end it. What went wrong is raised by ``wait``."""

    def __init__(self, job: Job, options: start.Options | None, on_event: OnEvent, spark: SparkSession | None) -> None:
        """Start the job. Returns at once."""
        self.job_name = job.name
        self._control: ControlServer | None = None
        self._uri = ""
        self._result: start.Result | None = None
        self._error: BaseException | None = None
        self._changed = threading.Condition()
        arguments = (job, options, on_event, spark)
        self._thread = threading.Thread(target=self._run, args=arguments, name=f"headgate-job-{job.name}", daemon=True)
        self._thread.start()

    @property
    def is_running(self) -> bool:
        """Whether the job has not ended yet. It runs as soon as it was started, though Spark may take a while."""
        return self._thread.is_alive()

    def status(self) -> dict[str, Any]:
        """What the job is doing, or how it ended: what ``headgate status --json`` prints."""
        with self._changed:
            control, error = self._control, self._error
        if control is None:
            seen = {**view.status(self.job_name, (), (), now_ms=time.time_ns() // 1_000_000), "state": "starting"}
        else:
            seen = dict(control.status())
        return seen if error is None else {**seen, "state": view.CRASHED, "text": str(error)}

    def wait(self, timeout: float | None = None) -> start.Result:
        """Wait for the end, this many seconds at most, and say how it was. Raises what the job failed of.

        A ``TimeoutError`` says that the job still runs; so does an interrupted wait.
        """
        self._thread.join(timeout)
        if self._thread.is_alive():
            raise TimeoutError(f"job {self.job_name} still runs after {timeout:g} s")
        if self._error is not None:
            raise self._error
        assert self._result is not None
        if self._result.failure is not None:
            raise self._result.failure
        return self._result

    def savepoint(self, timeout: float = REQUEST_S, *, target: str | os.PathLike[str] | None = None) -> str:
        """Take a savepoint, and wait until it is copied. Returns its path, for ``Options(restore_from=...)``.

        With ``target`` it is written there as well: a directory or a URI, empty or not there yet.
        """
        return self._path(self._ask("savepoint", timeout, target))

    def stop(
        self,
        timeout: float = REQUEST_S,
        *,
        target: str | os.PathLike[str] | None = None,
        drain: bool = False,
    ) -> str:
        """End the job in good order: take a savepoint, commit all that it pre-committed, then end. Returns its path.

        The next run goes on from the savepoint. If the savepoint fails the job runs on. ``target``: as above.

        With ``drain`` the sources end where they stand, and the savepoint comes when all that was read has come out,
        open windows too. Nothing goes on from there.
        """
        reply = self._ask("stop", timeout, target, drain=drain)
        self._thread.join()
        return self._path(reply)

    def cancel(self, timeout: float = REQUEST_S) -> None:
        """End the job at once, without a last checkpoint. What was decided is committed, the rest is thrown away."""
        self._ask("cancel", timeout)
        self._thread.join()

    def show(self, every: Duration = "1s") -> None:
        """Show the status live, until the job ends: in a notebook below the cell, which is over at once.

        Elsewhere it shows it on the terminal, and returns when the job has ended; Ctrl-C ends the showing alone.
        """
        every_s = duration_ms(every, name="every", example="1s", least=100) / 1000
        with contextlib.suppress(KeyboardInterrupt):
            live.show(lambda: text.status(self.status()), text.as_html, self._ended_within, every_s)

    def __repr__(self) -> str:
        """The job and its state."""
        return f"JobClient({self.job_name!r}, {self.status()['state']})"

    def _repr_html_(self) -> str:
        """What ``headgate status`` shows, for a notebook."""
        return text.as_html(text.status(self.status()))

    # -- helpers -----------------------------------------------------------------------------------------------------

    def _run(self, job: Job, options: start.Options | None, on_event: OnEvent, spark: SparkSession | None) -> None:
        result, error = None, None
        try:
            result = start.run(job, options, on_event, spark, self._attach)
        except BaseException as raised:  # noqa: BLE001 - it is raised where somebody waits
            error = raised
        with self._changed:
            self._result, self._error = result, error
            self._changed.notify_all()

    def _attach(self, control: ControlServer, uri: str) -> None:
        with self._changed:
            self._control, self._uri = control, uri
            self._changed.notify_all()

    def _ask(
        self, command: str, timeout_s: float, target: str | os.PathLike[str] | None = None, *, drain: bool = False
    ) -> Reply:
        """Have the job do something, and wait until it has. One that is still starting is waited for."""
        deadline = time.monotonic() + timeout_s
        with self._changed:
            self._changed.wait_for(lambda: self._control or self._over, timeout=timeout_s)
            control, over = self._control, self._over
        if over:
            raise NotRunning(f"job {self.job_name} is not running any more: start it again")
        if control is None:
            raise ExternalError(f"{command}: job {self.job_name} is still starting after {timeout_s:g} s")
        place = None if target is None else absolute(target)
        left_s = max(0.1, deadline - time.monotonic())
        reply = control.request(command, timeout_s=left_s, target=place, drain=drain)
        if reply.outcome is Outcome.DONE:
            return reply
        raise UserError(reply.text) if reply.outcome is Outcome.REFUSED else ExternalError(reply.text)

    def _ended_within(self, timeout_s: float) -> bool:
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    @property
    def _over(self) -> bool:
        return self._result is not None or self._error is not None

    def _path(self, reply: Reply) -> str:
        assert reply.checkpoint is not None
        return reply.location or path_of(self._uri, CheckpointId(reply.checkpoint))
