"""How far a task may run ahead of its readers.

One rule: a batch that has entered the hook may write once every reader of the task is at most ``max_batches_ahead``
batches behind it. Until then the hook waits, and with it the whole query. A checkpoint does not: a cut is of what is
committed.

It cannot lock up. A reader needs only what is committed to reach a barrier, and no barrier needs a batch that waits.
"""

from headgate.core.effects import AdmitBatch
from headgate.core.evolve import evolve
from headgate.core.ids import TaskId
from headgate.core.state import JobState, StepContext


def admit(context: StepContext, name: TaskId) -> None:
    """Let the batch that has entered go on, if it may and has not been told so."""
    task = context.state.execution.tasks[name]
    if task.entered > task.admitted and may_enter(context.state, name):
        context.set_task(name, evolve(task, admitted=task.entered))
        context.order(AdmitBatch(context.state.leadership.generation, name, task.run, task.entered))


def may_enter(state: JobState, name: TaskId) -> bool:
    """Whether every reader is close enough behind the batch that has entered."""
    limit = state.settings.max_batches_ahead
    if limit is None:
        return True
    tasks = state.execution.tasks
    for channel in state.graph.outputs[name]:
        place = state.graph.inputs[channel.downstream].index(channel)
        if tasks[name].entered - tasks[channel.downstream].boundary.positions[place] > limit:
            return False
    return True


def admit_upstream(context: StepContext, name: TaskId) -> None:
    """A task has read on: whoever waits for it may go on."""
    if context.state.settings.max_batches_ahead is not None:
        for channel in context.state.graph.inputs[name]:
            admit(context, channel.upstream)
