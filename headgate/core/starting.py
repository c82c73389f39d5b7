"""How a run of a task is started, and whether there is anything left for it to read.

One rule: a run that has nothing left to read, because the job is being drained, comes up without reading. Its query
would else go on where the data is, and the watermark may have reached the end of time before.
"""

from headgate.core.effects import StartTask
from headgate.core.evolve import evolve
from headgate.core.ids import TaskId
from headgate.core.settings import Mode
from headgate.core.state import JobState, TaskState


def start_order(state: JobState, name: TaskId) -> StartTask:
    """How the task's current run is started: the first from its snapshot, later ones in place."""
    task = state.execution.tasks[name]
    order = next(start for start in state.execution.starts if start.task == name)
    if task.run != order.run:
        skip = state.settings.mode is Mode.AT_MOST_ONCE
        order = StartTask(state.leadership.generation, name, task.run, in_place=True, skip=skip)
    if state.termination.draining and exhausted(state, name, task):
        order = evolve(order, exhausted=True)
    return order


def exhausted(state: JobState, name: TaskId, task: TaskState) -> bool:
    """Whether a task has consumed all that it will ever be given. While the job drains, no source gives any more."""
    if state.graph.by_id[name].has_source and not (task.source_ended or state.termination.draining):
        return False
    for channel, consumed in zip(state.graph.inputs[name], task.boundary.positions, strict=True):
        upstream = state.execution.tasks[channel.upstream]
        if not upstream.ended or consumed < upstream.boundary.batch:
            return False
    return True
