"""Steps of the core into lines of history.

One rule: a line is seen in the difference between the state before a step and the state after it, so what the core
ignored is not told, and what it did is told once. Only what is under way is remembered.

Lines are plain data with ``at`` (ms) and ``event``: guarantee, generation, task-started, task-failed, restart,
checkpoint-triggered, -completed, -failed, -committed, savepoint-copied, restored, caught-up, notice, warning, ended;
and progress, at most once in ``PROGRESS_MS``, which is for whoever watches and not for the history.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from headgate.core.effects import AdmitBatch, Effect, Notify, Outcome
from headgate.core.events import BatchEntered, Event, Reported, SavepointCopied, TaskEnded, TaskFailed
from headgate.core.ids import NO_GENERATION, TaskId
from headgate.core.records import Ending
from headgate.core.restart import Failure, FailureClass, Level
from headgate.core.state import AT_REST, JobState, Phase
from headgate.redact import redact
from headgate.run.loop import Observation
from headgate.view.batches import report
from headgate.view.figures import Figures
from headgate.view.history import JobExecution, Line
from headgate.view.job import running_status, state_of
from headgate.view.recoveries import Recoveries
from headgate.view.sinks import Sinks
from headgate.view.states import States
from headgate.view.timing import Timing

PROGRESS = "progress"
PROGRESS_MS = 1_000
STOPPED_OUTSIDE = Failure(FailureClass.EXTERNAL, "its query was stopped from outside")


class Recorder:
    """Watches the steps of one process. ``execution`` is what the history tells of the job's earlier ones."""

    def __init__(self, job: str, execution: JobExecution | None = None) -> None:
        """Nothing has been watched yet."""
        self._job = job
        self._execution = execution or JobExecution()
        self._timing = Timing()
        self._figures = Figures()
        self._sinks = Sinks()
        self._states = States()
        self._recoveries = Recoveries()
        self._progress_ms: int | None = None
        self._gave_up: str | None = None
        self._gc_ratio: float | None = None
        self._stalls: dict[str, str] = {}
        """What stands still, by what it is. Replaced and never changed: it is read from other threads."""

    def watch(
        self, now_ms: int, event: Event | Observation, before: JobState, after: JobState, effects: Sequence[Effect]
    ) -> list[Line]:
        """The lines that a step, or something that was measured, adds."""
        if isinstance(event, Observation):
            found = list(self._measured(now_ms, event, after))
        elif before is after and not effects:
            found = []
        else:
            found = list(self._stepped(now_ms, event, before, after, effects))
            self._follow(now_ms, event, before, after, effects)
            found += self._recoveries.watch(now_ms, found, before, after)
            if before.phase is not after.phase:
                self._states.take(now_ms, state_of(after))
        lines: list[Line] = [{"at": now_ms, **_without_secrets(line)} for line in found]
        for line in lines:
            self._execution.take(line)
        if self._progress_ms is None or now_ms - self._progress_ms >= PROGRESS_MS:
            self._progress_ms = now_ms
            lines.append({"at": now_ms, "event": PROGRESS, **self.status(now_ms, after)})
            self._figures.sample(now_ms)
        return lines

    def status(self, now_ms: int, state: JobState) -> Line:
        """The status of the job. May be asked from any thread: nothing that grows meanwhile is walked over."""
        seen = running_status(self._job, state, now_ms, self._execution, self._figures, self._sinks, self._states)
        return {**seen, "stalled": list(self._stalls.values())}

    # -- what was measured -------------------------------------------------------------------------------------------

    def _measured(self, now_ms: int, note: Observation, state: JobState) -> Iterator[Line]:
        fields = note.fields
        match note.kind:
            case "warning" | "notice" | "guarantee" | "receipt" | "decision":
                yield {"event": note.kind, **fields}
            case "stall":
                self._stalls = {**self._stalls, fields["name"]: fields["text"]}
                yield {"event": "warning", "text": fields["text"]}
            case "stall-over":
                self._stalls = {name: text for name, text in self._stalls.items() if name != fields["name"]}
                yield {"event": "notice", "text": f"{fields['name']} goes on"}
            case "progress":
                self._progressed(now_ms, fields, state)
            case "wait_ms":
                self._figures.waited(fields["task"], fields["value"])
            case "held_up_ms":
                self._figures.held_up(fields["task"], fields["about"], fields["value"])
            case "segment":
                self._figures.written(
                    fields["generation"], fields["task"], fields["channel"], fields["batch"], fields["bytes"]
                )
            case "state":
                self._figures.state(fields["task"], fields["sizes"])
            case "python":
                self._figures.python(fields["task"], fields["ratio"])
            case "gc":
                self._gc_ratio = fields["ratio"]
            case _:
                self._timing.measured(now_ms, note.kind, fields)
                self._sinks.measured(note.kind, fields)

    def _progressed(self, now_ms: int, fields: Mapping[str, Any], state: JobState) -> None:
        """Spark says that a batch of a task is over."""
        self._figures.read(fields["task"], int(fields["value"]))
        self._figures.sized(fields["task"], fields.get("batch_rows"))
        said = fields.get("said")
        if said is not None:
            self._figures.batch(now_ms, fields["task"], report(said), state.graph, fields.get("sources", ()))

    # -- what a step did ---------------------------------------------------------------------------------------------

    def _stepped(
        self, now_ms: int, event: Event, before: JobState, after: JobState, effects: Sequence[Effect]
    ) -> Iterator[Line]:
        told = False
        if after.leadership.generation not in (before.leadership.generation, NO_GENERATION):
            leads, epoch_record = after.leadership, before.leadership.epoch_record
            base = None if epoch_record is None else epoch_record.base
            yield {"event": "generation", "generation": leads.generation, "base": base, "leader": leads.leader}
        for line in (*_started(before, after), *self._failed(event, before, after)):
            told = told or line["event"] != "task-started"
            yield line
        for line in self._timing.watch(now_ms, event, before, after, effects):
            told = told or line["event"] == "checkpoint-failed"
            if line["event"] == "checkpoint-completed":
                if self._gc_ratio is not None:  # Once: a job that is idle collects nothing, and measures nothing.
                    line["gc_ratio"], self._gc_ratio = self._gc_ratio, None
                for task, part in line["tasks"].items():
                    part["figures"] = self._figures.noted(task, now_ms)
            yield line
        if isinstance(event, SavepointCopied) and event.checkpoint in before.retained.copying:
            yield {"event": "savepoint-copied", "id": event.checkpoint}
        if after.phase in AT_REST and before.phase not in AT_REST:
            yield self._ended(after, effects)
        elif not told:
            for effect in effects:
                if isinstance(effect, Notify) and effect.request is None and effect.outcome is not Outcome.DONE:
                    yield {"event": "notice", "text": effect.text}

    def _follow(self, now_ms: int, event: Event, before: JobState, after: JobState, effects: Sequence[Effect]) -> None:
        """What a step did to the batch of a task, and to the transactions of a sink."""
        self._sinks.watch(event, before, after)
        if isinstance(event, BatchEntered) and before is not after:
            self._figures.entered(now_ms, event.task, event.boundary.batch)
        for effect in effects:
            if isinstance(effect, AdmitBatch):
                self._figures.admitted(now_ms, effect.task, effect.batch)
        if before.execution.tasks is not after.execution.tasks:
            for name, task in after.execution.tasks.items():
                was = before.execution.tasks.get(name)
                if task.started and (was is None or not was.started or was.run != task.run):
                    self._figures.began(now_ms, name)
                if task.ended or not task.started:
                    self._figures.stopped(now_ms, name)

    def _failed(self, event: Event, before: JobState, after: JobState) -> Iterator[Line]:
        """A failure that the core took in, and what it decided."""
        back = before.phase is Phase.RUNNING and after.phase is Phase.RESTARTING
        over = (
            before.phase is Phase.RUNNING and after.phase is Phase.CLOSING and after.termination.ending is Ending.FAILED
        )
        task, failure = _failure_of(event)
        again = None if task is None else _new_restart(before, after, task)
        if task is not None and failure is not None and (back or over or again is not None):
            stood, what = before.execution.tasks[task], failure.message
            yield {
                "event": "task-failed",
                "task": task,
                "run": stood.run,
                "batch": stood.boundary.batch + 1,
                "class": failure.kind.value,
                "message": what,
            }
            cause, kind = f"task {task} failed: {what}", failure.kind
        elif back or over:
            most = after.settings.tolerable_failed_checkpoints
            task, cause, kind = None, f"more than {most} checkpoints failed in a row", FailureClass.INTERNAL
        else:
            return
        if over:
            self._gave_up = cause
            return
        level = Level.JOB if back else Level.TASK
        at_ms = after.restarts.restart_at_ms if back else again
        assert at_ms is not None, "a restart has its time"
        self._timing.restarted()
        yield {
            "event": "restart",
            "level": level.value,
            "task": task,
            "cause": cause,
            "class": kind.value,
            "delay_ms": at_ms - after.now_ms,
        }

    def _ended(self, after: JobState, effects: Sequence[Effect]) -> Line:
        how = after.termination.ending
        ending: Any = "deposed" if after.phase is Phase.DEPOSED or how is None else how.value
        text = next((effect.text for effect in reversed(effects) if isinstance(effect, Notify)), "")
        if how is Ending.FAILED and self._gave_up is not None:
            text = f"{text}; {self._gave_up}"
        return {"event": "ended", "ending": ending, "text": text, "leader": after.leadership.leader}


def _without_secrets(line: Line) -> Line:
    """What others say, drivers and libraries, may have passwords in it."""
    return {name: redact(value) if isinstance(value, str) else value for name, value in line.items()}


def _started(before: JobState, after: JobState) -> Iterator[Line]:
    if before.execution.tasks is after.execution.tasks:
        return
    for name, task in after.execution.tasks.items():
        was = before.execution.tasks.get(name)
        same = was is not None and was.run == task.run and before.leadership.generation == after.leadership.generation
        if task.started and not (same and was is not None and was.started):
            yield {"event": "task-started", "task": name, "run": task.run, "batch": task.boundary.batch}


def _new_restart(before: JobState, after: JobState, task: TaskId) -> int | None:
    """When a task is to run again, if that was decided in this step."""
    if task not in before.execution.tasks or before.execution.tasks[task].restart_at_ms is not None:
        return None
    return after.execution.tasks[task].restart_at_ms


def _failure_of(event: Event) -> tuple[TaskId | None, Failure | None]:
    """What a fact says has failed, should the core believe it."""
    match event:
        case TaskFailed(task=task, failure=failure):
            return task, failure
        case TaskEnded(task=task):
            return task, STOPPED_OUTSIDE
        case Reported(task=task, failure=Failure() as failure):
            return task, failure
        case Reported(task=task, ended=True):
            return task, STOPPED_OUTSIDE
        case _:
            return None, None
