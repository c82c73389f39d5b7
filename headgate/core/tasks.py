"""What a task's own facts change.

One rule: a fact of a run or a generation that is over is ignored; what it may have known, the next run tells with its
boundary. A boundary only ever moves forward, and never past a gate.
"""

from typing import assert_never

from headgate.core import alignment, backpressure, closing, coordinator, leadership, restart as restarts, starting
from headgate.core.effects import AbortFailedAttempts, Notify, Outcome, StopTask
from headgate.core.events import (
    AnyTaskFact,
    BatchCommitted,
    BatchEntered,
    OutputsWritten,
    Reported,
    SourceEnded,
    TaskEnded,
    TaskFailed,
    TaskStarted,
)
from headgate.core.evolve import evolve
from headgate.core.ids import Batch, Run, TaskId
from headgate.core.records import Boundary, Ending
from headgate.core.restart import Failure, FailureClass, FailureHistory, GiveUp, Level, Restart
from headgate.core.settings import Mode
from headgate.core.state import Phase, StepContext


def handle(context: StepContext, fact: AnyTaskFact) -> None:
    """Take in a fact about a task of this generation."""
    state = context.state
    if state.phase is not Phase.RUNNING or fact.generation != state.leadership.generation:
        return
    task = state.execution.tasks.get(fact.task)
    if task is None:
        raise context.impossible(f"a fact about task {fact.task}, which the job does not have")
    if fact.run != task.run or task.ended or task.restart_at_ms is not None:
        return
    match fact:
        case BatchEntered(boundary=boundary):
            entered(context, fact.task, boundary.batch)
        case OutputsWritten(batch=batch):
            if batch > task.written:
                context.set_task(fact.task, evolve(task, written=batch))
        case BatchCommitted(boundary=boundary):
            advance(context, fact.task, boundary)
        case TaskStarted(boundary=boundary):
            started(context, fact.task, boundary)
        case TaskFailed(failure=failure, chance=chance):
            failed(context, fact.task, failure, chance)
        case TaskEnded(boundary=boundary):
            ended(context, fact.task, boundary)
        case SourceEnded():
            context.set_task(fact.task, evolve(task, source_ended=True))
            drain(context, fact.task)
        case Reported():
            reported(context, fact)
        case _:
            assert_never(fact)


def entered(context: StepContext, name: TaskId, batch: Batch) -> None:
    """A batch waits in the hook: let it go on if its readers are close enough behind."""
    task = context.state.execution.tasks[name]
    if batch > task.entered:
        context.set_task(name, evolve(task, entered=batch))
        backpressure.admit(context, name)


def advance(context: StepContext, name: TaskId, boundary: Boundary) -> None:
    """A batch is committed: what it wrote may be read, and a checkpoint that waited for it may cut."""
    state = context.state
    task = state.execution.tasks[name]
    if boundary.batch <= task.boundary.batch:
        return
    _check_positions(context, name, boundary)
    batch = boundary.batch
    after = evolve(
        task,
        boundary=boundary,
        entered=max(task.entered, batch),
        admitted=max(task.admitted, batch),
        written=max(task.written, batch),
        fruitless=task.fruitless if starting.exhausted(state, name, task) else 0,
    )
    context.set_task(name, after)
    coordinator.open_gates(context, state.graph.outputs[name])
    backpressure.admit_upstream(context, name)
    if state.checkpoints.pending and alignment.could_cut(context.state, name):
        coordinator.cut(context)
    drain(context, name)


def _check_positions(context: StepContext, name: TaskId, boundary: Boundary) -> None:
    state = context.state
    for channel, before, now in zip(
        state.graph.inputs[name], state.execution.tasks[name].boundary.positions, boundary.positions, strict=True
    ):
        if not before <= now <= state.execution.gates[channel.id]:
            raise context.impossible(
                f"batch {boundary.batch} of task {name} consumed channel {channel.id} through {now}: it stood at "
                f"{before} and its gate at {state.execution.gates[channel.id]}"
            )


def started(context: StepContext, name: TaskId, boundary: Boundary) -> None:
    """A run is up. What earlier runs wrote for a batch that will run again, or never, is thrown away."""
    task = context.state.execution.tasks[name]
    if task.started:
        return
    batch = max(boundary.batch, task.boundary.batch)
    context.set_task(
        name, evolve(task, started=True, entered=max(batch, task.entered), admitted=max(batch, task.admitted))
    )
    if task.run > 1:
        for sink in context.state.graph.by_id[name].sinks:
            context.set_sink(sink, evolve(context.state.sinks[sink], abort_run=task.run))
            context.order(AbortFailedAttempts(context.state.leadership.generation, sink, task.run))
    advance(context, name, boundary)
    drain(context, name)


def failed(context: StepContext, name: TaskId, failure: Failure, chance: float) -> None:
    """A query is dead: decide whether it, or the whole job, tries again."""
    state = context.state
    task = state.execution.tasks[name]
    alone = restarts.is_alone(state.settings.restart, failure, task.fruitless)
    history, answer = restarts.decide(
        state.settings.restart,
        state.restarts.histories.get(name, FailureHistory()) if alone else state.restarts.history,
        failure,
        now_ms=state.now_ms,
        chance=chance,
        fruitless=task.fruitless,
        skips=state.settings.mode is Mode.AT_MOST_ONCE,
    )
    if alone:
        after = evolve(state.restarts, histories={**state.restarts.histories, name: history})
    else:
        after = evolve(state.restarts, history=history)
    context.state = evolve(state, restarts=after)
    _say(context, f"task {name} failed ({failure.kind.value}: {failure.message})", answer)
    match answer:
        case GiveUp():
            closing.close(context, Ending.FAILED)
        case Restart(level=Level.JOB, delay_ms=delay_ms):
            leadership.restart(context, delay_ms)
        case Restart(delay_ms=delay_ms):
            restart_at_ms = state.now_ms + delay_ms
            again = evolve(
                task,
                run=Run(task.run + 1),
                started=False,
                entered=task.boundary.batch,
                admitted=task.boundary.batch,
                draining=False,
                restart_at_ms=restart_at_ms,
                again_from_ms=task.again_from_ms if task.is_catching_up else restart_at_ms,
                again_through=max(task.again_through, task.entered),
                fruitless=task.fruitless + 1,
            )
            context.set_task(name, again)
        case _:
            assert_never(answer)


def checkpoints_failed(context: StepContext) -> None:
    """More checkpoints in a row have failed than the user bears: the job goes back, or gives up."""
    state = context.state
    if state.checkpoints.failures <= state.settings.tolerable_failed_checkpoints:
        return
    failure = Failure(FailureClass.INTERNAL, f"{state.checkpoints.failures} checkpoints failed in a row")
    history, answer = restarts.decide(
        state.settings.restart,
        state.restarts.history,
        failure,
        now_ms=state.now_ms,
        chance=0.5,
        fruitless=0,
        skips=False,
    )
    context.state = evolve(
        state,
        checkpoints=evolve(state.checkpoints, failures=0),
        restarts=evolve(state.restarts, history=history),
    )
    _say(context, failure.message, answer)
    match answer:
        case GiveUp():
            closing.close(context, Ending.FAILED)
        case Restart(delay_ms=delay_ms):
            leadership.restart(context, delay_ms)
        case _:
            assert_never(answer)


def _say(context: StepContext, what: str, answer: Restart | GiveUp) -> None:
    if isinstance(answer, GiveUp):
        text = f"{what}: giving up, {answer.why}"
    else:
        text = f"{what}: restarting the {answer.level.value} in {answer.delay_ms} ms"
    context.tell_story(text)
    context.order(Notify(Outcome.NOTICE, text))


def run_again(context: StepContext, name: TaskId) -> None:
    """The delay is over: start the failed query in place."""
    context.set_task(name, evolve(context.state.execution.tasks[name], restart_at_ms=None))
    context.order(starting.start_order(context.state, name))


def drain(context: StepContext, name: TaskId) -> None:
    """Once nothing more can come to a task, let it finish and stop."""
    task = context.state.execution.tasks[name]
    if task.draining or not task.started or not starting.exhausted(context.state, name, task):
        return
    context.set_task(name, evolve(task, draining=True))
    context.order(StopTask(context.state.leadership.generation, name, task.run, drain=True))


def ended(context: StepContext, name: TaskId, boundary: Boundary) -> None:
    """A query has stopped. Good if it was drained; a failure if it stopped by itself."""
    advance(context, name, boundary)
    task = context.state.execution.tasks[name]
    if not task.draining:
        failed(context, name, Failure(FailureClass.EXTERNAL, "its query was stopped from outside"), 0.5)
        return
    context.set_task(name, evolve(task, ended=True))
    context.tell_story(f"task {name} finished after batch {boundary.batch}")
    for channel in context.state.graph.outputs[name]:
        drain(context, channel.downstream)


def reported(context: StepContext, fact: Reported) -> None:
    """A task says all it has to say, because something may have been lost."""
    started(context, fact.task, fact.boundary)
    advance(context, fact.task, fact.boundary)
    if fact.entered is not None:
        entered(context, fact.task, fact.entered)
    if fact.source_ended:
        context.set_task(fact.task, evolve(context.state.execution.tasks[fact.task], source_ended=True))
        drain(context, fact.task)
    if fact.failure is not None:
        failed(context, fact.task, fact.failure, fact.chance)
    elif fact.ended:
        ended(context, fact.task, fact.boundary)
