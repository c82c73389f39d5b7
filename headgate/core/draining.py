"""A user wants the job to end, and all that it has read to come out first: stop with drain.

One rule: from the moment a drain is taken up, no source gives any more, and that is never taken back. Every checkpoint
that is triggered from then on says so, and whoever returns to one goes on with it; one that was triggered before it
knows nothing of it, since its cuts lie before the last batch of every task.

What follows is what follows when sources end by themselves: each task that has read everything finishes, with time at
its end, and then the last checkpoint is taken, here as a savepoint (``trigger``), after which the job stops.
"""

from headgate.core import coordinator, tasks
from headgate.core.effects import Notify, Outcome
from headgate.core.evolve import evolve
from headgate.core.ids import NO_CHECKPOINT
from headgate.core.records import Kind
from headgate.core.state import StepContext

SAID = "the job is being drained: its sources have ended, and what was read comes out"


def take_up(context: StepContext) -> None:
    """Begin with a drain when its turn has come. What was asked for before the job knew that it drains is settled."""
    checkpoints, termination = context.state.checkpoints, context.state.termination
    requests = checkpoints.requests
    begins = not termination.draining and checkpoints.stop_after == NO_CHECKPOINT and any(r.drain for r in requests[:1])
    if not begins and not (termination.draining and any(request.kind is Kind.SAVEPOINT for request in requests)):
        return
    for request in requests:
        if request.drain and termination.drain is None:
            termination = evolve(termination, drain=request.id)
        elif request.kind is Kind.SAVEPOINT:
            text = f"{request.kind.value} refused: {coordinator.BEING_DRAINED}"
            context.order(Notify(Outcome.REFUSED, text, request.id))
    context.state = evolve(
        context.state,
        checkpoints=evolve(
            checkpoints, requests=tuple(request for request in requests if request.kind is not Kind.SAVEPOINT)
        ),
        termination=evolve(termination, draining=True),
    )
    if begins:
        context.tell_story("draining: no source gives any more")
        for who in (termination.drain, None):
            context.order(Notify(Outcome.NOTICE, SAID, who))
        for name in context.state.execution.tasks:
            tasks.drain(context, name)
