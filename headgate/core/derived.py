"""What follows from a state by itself, whatever event led there.

One rule: such a transition fires here and nowhere else, after the event has been taken in. The first one in the row of
the job's phase that changes something fires, then the row of the new state is looked at from its beginning, until none
changes anything. So no module need know who waits for what it has done.

It ends. Phases go one way, ``RECOVERING``, ``RUNNING``, and then ``RESTARTING`` and ``READING``, or ``CLOSING`` and
``CLOSED``; ``READING`` and ``CLOSED`` have no row. Inside a phase each transition uses up something that none of them
brings back:

- ``complete`` takes a checkpoint out of those that are pending. Only ``trigger`` puts one there, and each takes an id:
  there are ``IDS_AHEAD_MAX`` past the last record in the store, and no record gets there within a step.
- ``take_up`` takes a drain out of the requests, and whatever savepoints are asked for there. Only events put them in.
- ``collect`` takes checkpoints out of those that are kept, or begins a collection. Only an event ends one.
- ``abandon_commits`` empties what sinks have due, and only an event fills it. ``write_closing_record`` and
  ``throw_rest_away`` are done once.

``fired_max`` counts this up, and one more is an error.
"""

from collections.abc import Callable

from headgate.core import closing, coordinator, draining, garbage, leadership, tasks
from headgate.core.checkpoint_log import IDS_AHEAD_MAX
from headgate.core.settings import Settings
from headgate.core.state import Phase, StepContext

Transition = Callable[[StepContext], None]
"""Leaves the state as it is, the same object, if there is nothing to do."""

ROWS: tuple[tuple[Phase, tuple[Transition, ...]], ...] = (
    (
        Phase.RUNNING,
        (
            closing.cancelled,
            coordinator.complete,
            garbage.collect,
            tasks.checkpoints_failed,
            draining.take_up,
            coordinator.trigger,
        ),
    ),
    (Phase.RECOVERING, (closing.cancelled, leadership.recovered)),
    (Phase.RESTARTING, (leadership.cut_delay_short, garbage.collect)),
    (
        Phase.CLOSING,
        (
            closing.abandon_commits,
            closing.write_closing_record,
            closing.throw_rest_away,
            garbage.collect,
            closing.closed,
        ),
    ),
)
"""In each phase, what may follow. The order is that in which orders of one step are given."""

ONCE = 12
"""Changes of phase in one step, and transitions that fire once in a phase."""


def fired_max(settings: Settings) -> int:
    """How many transitions can follow one event, at most."""
    return settings.max_concurrent_checkpoints + 2 * (IDS_AHEAD_MAX + 1) + ONCE


def fire(context: StepContext) -> None:
    """Go on until nothing follows any more."""
    fired = 0
    while _fire_first(context):
        fired += 1
        if fired > fired_max(context.state.settings):
            raise context.impossible(f"a step of a job that is {context.state.phase.value} does not come to an end")


def _fire_first(context: StepContext) -> bool:
    """Fire the first transition that changes something; False if there is none."""
    state = context.state
    for phase, row in ROWS:
        if phase is state.phase:
            for transition in row:
                transition(context)
                if context.state is not state:
                    return True
    return False
