"""What befalls a world: how each kind of fault is carried out.

One rule: a fault does something to the world, never to the core's state. What users ask for counts as a fault, too:
it comes when it comes.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from headgate.core.events import (
    CancelAsked,
    CheckpointAsked,
    DeleteAsked,
    Event,
    HoldAsked,
    LeadershipLost,
    SavepointAsked,
)
from headgate.core.graph import Graph, Operator
from headgate.core.ids import CheckpointId, LeaderId, OperatorUid, SinkId
from headgate.core.restart import Failure, FailureClass
from headgate.sim.plan import Fault

if TYPE_CHECKING:
    from headgate.sim.world import World


def fail_task(world: "World", fault: Fault, kind: FailureClass) -> None:
    """A query of the leader dies."""
    query = world.official.queries.get(fault.target) if world.official else None
    if query is not None and query.alive:
        world.crashes += 1
        query.kill(Failure(kind, fault.kind))


def crash_executor(world: "World", fault: Fault) -> None:
    """An executor dies under some of the queries."""
    for task in world.graph.tasks:
        if world.rng.random() < 0.6:
            fail_task(world, replace(fault, target=str(task.id)), FailureClass.LOST_EXECUTOR)


def crash_leader(world: "World", _: Fault) -> None:
    """The leader's process dies."""
    if world.official is not None:
        world.crash(world.official)


def lose_directory(world: "World", _: Fault) -> None:
    """The machine with the working directory is lost: every process dies, and only what is in the storage stays."""
    for process in world.processes:
        world.crash(process)
    world.disk.lose()
    for sink in world.sinks.values():
        sink.lose()


def crash_at_effect(world: "World", fault: Fault) -> None:
    """The leader dies just before, or just after, one of the orders it is about to carry out."""
    if fault.lasting_ms % 2:
        world.crash_before = world.effects + fault.amount
    else:
        world.crash_after = world.effects + fault.amount


def usurp(world: "World", fault: Fault) -> None:
    """Another process is made leader while this one still believes it leads; it hears of it later, or never."""
    before = world.official
    if before is None or world.electing:
        return
    world.elect()
    if fault.amount % 2:
        world.at(fault.lasting_ms, before.take, LeadershipLost(LeaderId(before.name)))


def usurp_slowly(world: "World", fault: Fault) -> None:
    """Another process is made leader, and all that it writes to the store takes long to get there."""
    if not world.electing:
        world.elect()
        world.processes[-1].write_delay_ms = fault.lasting_ms


def freeze_leader(world: "World", fault: Fault) -> None:
    """The leader is stopped in the middle of everything, another takes over, and the first goes on later."""
    before = world.official
    if before is not None and before.alive and not world.electing:
        before.thaws_at = world.now + fault.lasting_ms
        world.elect()


def forget_executor(world: "World", fault: Fault) -> None:
    """An executor is given up for lost, but is only slow: what it had begun to write arrives later.

    Spark has another one do the same work at once, or the query fails.
    """
    query = world.official.queries.get(fault.target) if world.official else None
    if query is None:
        return
    if fault.amount % 2:
        query.lags_ms = fault.lasting_ms
    else:
        query.outlives_ms = fault.lasting_ms
        fail_task(world, fault, FailureClass.LOST_EXECUTOR)


def orphan_executors(world: "World", fault: Fault) -> None:
    """The leader's process dies, and its executors do not: what they had begun to write arrives later."""
    if world.official is not None:
        for query in world.official.queries.values():
            query.outlives_ms = fault.lasting_ms
        world.crash(world.official)


def cancel_and_usurp(world: "World", fault: Fault) -> None:
    """A user cancels at one process while another is being made leader."""
    before = world.official
    if before is not None and before.alive and not world.electing:
        before.take(CancelAsked(world.request(before)))
        if not world.over:
            world.at(fault.lasting_ms // 20, world.elect)


def storm(world: "World", fault: Fault) -> None:
    """Messages are lost, late, doubled and overtaken for a while."""
    world.weather = fault.amount
    world.at(fault.lasting_ms, _clear, world, "weather")


def store_trouble(world: "World", fault: Fault) -> None:
    """Writes to the store go wrong for a while."""
    world.store.trouble = min(4, fault.amount)
    world.at(fault.lasting_ms, _clear, world, "store")


def _clear(world: "World", what: str) -> None:
    if what == "weather":
        world.weather = 0
    else:
        world.store.trouble = 0


def slow_task(world: "World", fault: Fault) -> None:
    """A task is slow for a while."""
    world.slow_down(fault.target, fault.amount)
    world.at(fault.lasting_ms, world.slow_down, fault.target, 1)


def commit_trouble(world: "World", fault: Fault) -> None:
    """The next commits of a sink fail, or seem to."""
    world.sinks[fault.target].failing_commits += fault.amount


def pre_commit_trouble(world: "World", fault: Fault) -> None:
    """The next pre-commits of a sink fail."""
    world.sinks[fault.target].failing_pre_commits += fault.amount


def decline(world: "World", fault: Fault) -> None:
    """A task declines the next snapshots."""
    world.declines[fault.target] = fault.amount


def ask(world: "World", fault: Fault) -> None:
    """A user asks for something."""
    if world.official is None or not world.official.alive:
        return
    request = world.request(world.official)
    world.checker.drain_asked |= fault.kind == "ask-drain"
    completed = world.official.state.retained.completed
    some = completed[fault.amount % len(completed)].id if completed else CheckpointId(0)
    asked: dict[str, Event] = {
        "ask-checkpoint": CheckpointAsked(request),
        "ask-savepoint": SavepointAsked(request),
        "ask-stop": SavepointAsked(request, stop=True),
        "ask-drain": SavepointAsked(request, stop=True, drain=True),
        "ask-cancel": CancelAsked(request),
        "ask-abandon": CancelAsked(request, (SinkId(fault.target),)),
        "ask-hold": HoldAsked(request, some),
        "ask-release": HoldAsked(request, some, held=False),
        "ask-delete": DeleteAsked(request, some),
    }
    world.official.take(asked[fault.kind])


def change_job(world: "World", fault: Fault) -> None:
    """The next leader comes with a changed job: one operator renamed, one task rescaled."""
    victim = fault.amount % len(world.graph.tasks)
    task = world.graph.tasks[victim]
    if any(operator.uid in pair for pair in world.renamed for operator in task.operators):
        return
    fresh = OperatorUid(f"{task.operators[0].uid}x")
    changed = replace(task, operators=(Operator(fresh, stateful=True),), partitions=task.partitions % 4 + 1)
    tasks = tuple(changed if other.id == task.id else other for other in world.graph.tasks)
    world.graph = Graph(tasks, world.graph.channels)
    world.renamed = (*world.renamed, (task.operators[0].uid, fresh))
    crash_leader(world, fault)


def outlive(world: "World", fault: Fault) -> None:
    """From now on executors outlive whoever they work for."""
    world.outliving_ms = fault.lasting_ms


HOLDS_UP = ("weather", "store-trouble", "usurp-slowly", "freeze-leader", "commit-trouble", "pre-commit-trouble")
"""Faults that keep a leader from getting at its sinks for a while."""

FAULTS: dict[str, Callable[["World", Fault], None]] = {
    "crash-task": lambda world, fault: fail_task(world, fault, FailureClass.EXTERNAL),
    "fail-user": lambda world, fault: fail_task(world, fault, FailureClass.USER),
    "fail-internal": lambda world, fault: fail_task(world, fault, FailureClass.INTERNAL),
    "crash-executor": crash_executor,
    "crash-leader": crash_leader,
    "crash-at-effect": crash_at_effect,
    "lose-directory": lose_directory,
    "usurp": usurp,
    "usurp-slowly": usurp_slowly,
    "freeze-leader": freeze_leader,
    "forget-executor": forget_executor,
    "orphan-executors": orphan_executors,
    "cancel-and-usurp": cancel_and_usurp,
    "weather": storm,
    "store-trouble": store_trouble,
    "slow-task": slow_task,
    "outlive": outlive,
    "commit-trouble": commit_trouble,
    "pre-commit-trouble": pre_commit_trouble,
    "decline": decline,
    "ask-checkpoint": ask,
    "ask-savepoint": ask,
    "ask-stop": ask,
    "ask-drain": ask,
    "ask-cancel": ask,
    "ask-abandon": ask,
    "ask-hold": ask,
    "ask-release": ask,
    "ask-delete": ask,
    "change-job": change_job,
}
