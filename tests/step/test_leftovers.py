"""What the dead leave in sinks: it is looked for again and again, and a deposed leader leaves nothing of its own."""

from headgate.core import effects as o, events as e
from headgate.core.ids import Batch, Generation, LeaderId, Run, SinkId
from headgate.core.restart import FixedDelay
from headgate.core.state import Phase
from headgate.core.timing import next_deadline
from tests.helpers import epoch_record, line
from tests.step_helpers import ME, OTHER, Core, only, running

ONE = Generation(1)
OUT = SinkId("out")


def collect(core: Core, at_ms: int) -> list[o.Effect]:
    """The clock says that it is time; the sink looks, and says so."""
    given = core.tell(e.Ticked(at_ms))
    if core.state.leftovers.stale_generations:
        core.tell(core.stale_generations_aborted())
    return given


def test_leftovers_are_looked_for_again_and_again_later_and_later() -> None:
    core = running(line("a"), leftovers_ms=100, leftovers_max_ms=400)
    looks = []
    for _ in range(5):
        at_ms = next_deadline(core.state)
        assert at_ms is not None
        looks.append(at_ms)
        assert collect(core, at_ms - 1) == []
        assert collect(core, at_ms) == [o.AbortStaleGenerations(ONE, OUT, ONE)]
    assert looks == [100, 300, 700, 1_100, 1_500]


def test_a_look_that_nobody_has_answered_is_not_given_up_for_the_next() -> None:
    core = running(line("a"), leftovers_ms=100, resend_ms=1_000)
    core.tell(e.Ticked(100))
    assert core.tell(e.Ticked(900)) == []
    assert o.AbortStaleGenerations(ONE, OUT, ONE) in core.tell(e.Ticked(1_000))
    core.tell(core.stale_generations_aborted())
    assert core.state.leftovers.look_again_at_ms == 1_200
    core.tell(core.stale_generations_aborted())
    assert core.state.leftovers.look_again_at_ms == 1_200, "an answer that comes twice puts nothing off"


def test_failed_attempts_of_this_generation_are_looked_for_with_it() -> None:
    core = running(line("a"), leftovers_ms=100, restart=FixedDelay(0))
    core.tell(core.failed("a"), e.Ticked(1))
    assert only(o.AbortFailedAttempts, collect(core, 100)) == [], "the second run has not said where it stands"
    core.tell(core.started("a"), e.FailedAttemptsAborted(ONE, OUT, Run(2)))
    assert only(o.AbortFailedAttempts, collect(core, 300)) == [o.AbortFailedAttempts(ONE, OUT, Run(2))]


def test_a_new_generation_looks_soon_again() -> None:
    core = running(line("a"), leftovers_ms=100, leftovers_max_ms=10_000)
    for at_ms in (100, 300, 700):
        collect(core, at_ms)
    core.tell(e.LeadershipLost(ME))
    core.lead(LeaderId("me again"))
    core.read()
    core.create()
    core.start_all()
    assert core.state.leftovers.look_again_at_ms == 800


def test_a_deposed_leader_throws_away_what_it_never_published() -> None:
    core = running(line("a"))
    core.tell(core.committed("a", 0))
    core.ask()
    core.complete(1)
    core.tell(core.committed("a", 1))
    core.ask()
    core.make_ready(2)
    given = core.tell(e.RecordTaken(ME, epoch_record(2, 2, 3, leader=OTHER)))
    assert core.state.phase is Phase.DEPOSED
    assert only(o.AbortUnpublished, given) == [o.AbortUnpublished(ONE, OUT, Batch(0))]
    assert only(o.CommitTransaction, given) == []


def test_who_only_hears_that_another_leads_cannot_know_what_was_published() -> None:
    core = running(line("a"))
    core.tell(core.committed("a", 0))
    core.ask()
    core.make_ready(1)
    assert only(o.AbortUnpublished, core.tell(e.LeadershipLost(ME))) == []


def test_what_was_pre_committed_for_a_checkpoint_that_was_given_up_counts_as_published_with_the_next() -> None:
    core = running(line("a"), tolerable_failed_checkpoints=3)
    core.tell(core.committed("a", 0))
    core.ask()
    core.tell(
        core.pre_committed(1),
        e.SnapshotDeclined(ONE, core.state.checkpoints.pending[0].id, core.state.graph.tasks[0].id),
    )
    core.create()
    core.ask()
    core.complete(2)
    core.ask()
    core.make_ready(3)
    given = core.tell(e.RecordTaken(ME, epoch_record(3, 2, 4, leader=OTHER)))
    assert only(o.AbortUnpublished, given) == [o.AbortUnpublished(ONE, OUT, Batch(0))]
