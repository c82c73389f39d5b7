"""Who waits for an answer, and what they hear.

One rule: whoever asked for something hears what became of it, once; and whoever cancels a job hears, while it takes
long, what it waits for and how to end without that. Nothing is given up without a word.
"""

from headgate.core.checkpoint_log import CheckpointLog
from headgate.core.effects import Notify, Outcome
from headgate.core.evolve import evolve
from headgate.core.records import Transaction
from headgate.core.state import JobState, Phase, StepContext, ready


def holds_up(state: JobState) -> str:
    """What a closing job waits for that may never come, and how to end without it."""
    what = {name: f"to commit checkpoint {sink.due[0][1].checkpoint}" for name, sink in state.sinks.items() if sink.due}
    if state.termination.closing_written and not state.checkpoint_log.queue:
        what = dict.fromkeys(state.leftovers.stale_generations, "to throw away what will never be committed")
    what = {name: fate for name, fate in what.items() if name not in state.termination.abandon}
    if state.phase is not Phase.CLOSING or not what:
        return ""
    waits = ", ".join(f"sink {name} {fate}" for name, fate in what.items())
    how = " ".join(f"--abandon-commits {name}" for name in what)
    return f"waits for {waits}; to end without: `headgate cancel JOB {how} --reason TEXT`"


def say(context: StepContext, why: str = "") -> None:
    """Whoever cancelled hears what it takes, while it takes."""
    waits = holds_up(context.state)
    if waits and context.state.termination.cancel is not None:
        context.order(Notify(Outcome.NOTICE, f"cancel {waits}{why}", context.state.termination.cancel))


def say_what_fails(context: StepContext) -> None:
    """Whoever cancels hears at once what it takes, if commits are failing already."""
    if any(sink.tries for sink in context.state.sinks.values()):
        say(context)


def tell_abandoned(context: StepContext, given_up: tuple[Transaction, ...]) -> None:
    """Say what will not be committed, though it was decided. Nothing is lost without a word."""
    for each in given_up:
        context.order(
            Notify(
                Outcome.NOTICE,
                f"{each.sink}: the commit of checkpoint {each.checkpoint} is abandoned: what batches {each.after + 1} "
                f"to {each.through} of generation {each.generation} gave this sink may be missing there "
                f"(committable {each.committable!r})",
                None,
                each.checkpoint,
            )
        )


def refuse(context: StepContext, why: str) -> None:
    """Answer everybody whose checkpoint has not been triggered, or is given up, and now never will be."""
    for request in context.state.checkpoints.requests:
        context.order(Notify(Outcome.REFUSED, f"{request.kind.value} refused: {why}", request.id))
    context.state = evolve(context.state, checkpoints=evolve(context.state.checkpoints, requests=()))
    drain = context.state.termination.drain
    if drain is not None:
        context.order(Notify(Outcome.FAILED, f"the drain is given up: {why}", drain))
        context.state = evolve(context.state, termination=evolve(context.state.termination, drain=None))


def fail(context: StepContext, why: str) -> None:
    """Answer everybody who still waits for something: this process will not do it."""
    refuse(context, why)
    state, retained = context.state, context.state.retained
    ours = (checkpoint for checkpoint in retained.completed if checkpoint.leader == state.leadership.leader)
    copying = tuple(checkpoint for checkpoint in ours if checkpoint.id in retained.copying)
    waiting = [(pending.id, pending.request, "will not complete") for pending in state.checkpoints.pending]
    waiting += [(record.id, record.request, "may or may not be complete") for record in ready(state) + copying]
    for checkpoint, request, fate in waiting:
        if request is not None:
            context.order(Notify(Outcome.FAILED, f"checkpoint {checkpoint} {fate}: {why}", request, checkpoint))
    for asked in retained.holding:
        context.order(Notify(Outcome.FAILED, f"hold of {asked.checkpoint}: {why}", asked.request, asked.checkpoint))
    if retained.deleting is not None:
        text = f"savepoint {retained.deleting.checkpoint} may or may not be deleted: {why}"
        context.order(Notify(Outcome.FAILED, text, retained.deleting.request, retained.deleting.checkpoint))
    if state.termination.cancel is not None:
        context.order(Notify(Outcome.FAILED, f"cancel: {why}", state.termination.cancel))
    context.state = evolve(
        state,
        leadership=evolve(state.leadership, in_doubt=()),
        checkpoint_log=CheckpointLog(),
        checkpoints=evolve(state.checkpoints, pending=()),
        retained=evolve(retained, holding=(), copying=(), deleting=None),
        termination=evolve(state.termination, cancel=None),
    )
