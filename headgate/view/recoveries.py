"""How long recoveries took, part by part.

One rule: a part begins and ends where the core changes its mind, as with checkpoints. A recovery begins when a failure
is taken in, or when a process begins to lead a job that has a checkpoint. It waits for ``delay_ms``, as the restart
strategy says; it has *restored* when every task that goes back is up (``restore_ms``); and it has *caught up* when each
of them has committed the batches that it had begun before (``replay_ms``). A recovery that another failure
interrupts is not told: the next one is.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from headgate.core.ids import Batch, TaskId
from headgate.core.state import JobState, Phase
from headgate.view.history import Line

START = "start"
"""The level of a recovery that no failure of this process began."""


@dataclass
class _Recovery:
    level: str
    task: TaskId | None
    base: int | None
    begun_ms: int
    delay_ms: int
    targets: Mapping[TaskId, Batch]
    """The batch that each task that goes back had begun last."""
    up_ms: int | None = None


class Recoveries:
    """Those that are under way: of the job, or of single tasks."""

    def __init__(self) -> None:
        """None is."""
        self._open: dict[TaskId | None, _Recovery] = {}

    def watch(self, now_ms: int, lines: Iterable[Line], before: JobState, after: JobState) -> Iterator[Line]:
        """What a step, which added ``lines``, did to recoveries."""
        for line in lines:
            if line["event"] == "generation":
                self._begin(now_ms, line["base"])
            elif line["event"] == "restart":
                self._restart(now_ms, line, before)
        if self._open:
            if after.phase in (Phase.CLOSING, Phase.CLOSED, Phase.DEPOSED):
                self._open.clear()
            for key, recovery in list(self._open.items()):
                yield from self._go_on(now_ms, key, recovery, after)

    def _begin(self, now_ms: int, base: int | None) -> None:
        """A generation begins: of a job that goes back, or with a process that begins to lead."""
        known = self._open.get(None)
        if known is not None and known.level != START:
            known.base = base
        else:
            self._open = {} if base is None else {None: _Recovery(START, None, base, now_ms, 0, {})}

    def _restart(self, now_ms: int, line: Line, before: JobState) -> None:
        task = line["task"] if line["level"] == "task" else None
        if task is None:
            self._open.clear()
        elif None in self._open:
            return  # The job is still going back, this task with it.
        tasks = before.execution.tasks
        targets = {name: max(tasks[name].boundary.batch, tasks[name].entered) for name in tasks if task in (None, name)}
        self._open[task] = _Recovery(line["level"], task, None, now_ms, line["delay_ms"], targets)

    def _go_on(self, now_ms: int, key: TaskId | None, recovery: _Recovery, after: JobState) -> Iterator[Line]:
        tasks = after.execution.tasks
        concerned = tasks if recovery.task is None else (recovery.task,)
        if recovery.up_ms is None:
            up = after.phase is Phase.RUNNING and all(
                name in tasks and (tasks[name].ended or (tasks[name].started and tasks[name].restart_at_ms is None))
                for name in concerned
            )
            if not up or now_ms < recovery.begun_ms + recovery.delay_ms:
                return
            recovery.up_ms = now_ms
            yield self._line("restored", recovery, after, now_ms - recovery.begun_ms - recovery.delay_ms)
        if all(tasks[name].ended or tasks[name].boundary.batch >= batch for name, batch in recovery.targets.items()):
            del self._open[key]
            if recovery.level != START:
                yield self._line("caught-up", recovery, after, now_ms - recovery.up_ms)

    def _line(self, event: str, recovery: _Recovery, after: JobState, took_ms: int) -> Line:
        line = {
            "event": event,
            "level": recovery.level,
            "task": recovery.task,
            "generation": after.leadership.generation,
            "base": recovery.base,
        }
        if event == "restored":
            return {**line, "delay_ms": recovery.delay_ms, "restore_ms": took_ms}
        return {**line, "replay_ms": took_ms}
