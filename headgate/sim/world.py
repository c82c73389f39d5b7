"""One world: the clock, the messages, and the processes that lead.

One rule: nothing happens but what stands in the queue, and the queue is ordered by time and by who came first. A world
ends when the job does, or when something happened that must not.
"""

from collections.abc import Callable
from dataclasses import dataclass
from heapq import heappop, heappush
from random import Random

from headgate.core import invariants, timing
from headgate.core.effects import Effect
from headgate.core.errors import HeadgateError
from headgate.core.events import (
    BatchCommitted,
    BatchEntered,
    Event,
    LeadershipLost,
    LeadershipWon,
    OutputsWritten,
    Ticked,
)
from headgate.core.graph import Graph
from headgate.core.ids import LeaderId, OperatorUid, RequestId
from headgate.core.job import step
from headgate.core.records import Ending, Restore
from headgate.core.state import AT_REST, JobState, Phase
from headgate.sim.checker import Checker, Shape
from headgate.sim.disk import Disk
from headgate.sim.faults import FAULTS, HOLDS_UP
from headgate.sim.perform import HANDLERS
from headgate.sim.plan import CALM_MS, TROUBLE_MS, Fault, WorldPlan
from headgate.sim.query import SimulatedQuery
from headgate.sim.sink import SimSink
from headgate.sim.store import SimulatedStore
from headgate.sim.table import SimTable

TICKS_MAX = 100
"""A deadline that stays due whatever the clock says would have a process do nothing but ask for the time."""
LOOK_LATE_MS = 100
"""What a look for leftovers may take beyond the pause before it."""
CHECK_EVERY = 24
"""The invariants are checked after every this many steps of the core, and at the end."""
WITHOUT_DEADLINES = (BatchEntered, OutputsWritten)
"""Facts that move no deadline and end nothing. They are frequent, so nobody looks whether they did."""
ELECTION_MS = 25


@dataclass(frozen=True)
class WorldVerdict:
    """What became of a world."""

    seed: int
    violations: tuple[str, ...]
    events: int
    crashes: int
    completed_checkpoints: int
    ending: str


class Process:
    """One process that leads, or believes that it does: the core, and the queries of its driver."""

    def __init__(self, world: "World", name: str, graph: Graph) -> None:
        """A process that has not heard of its leadership yet."""
        self.world = world
        self.name = name
        self.graph = graph
        self.alive = True
        self.state = JobState(graph=graph, settings=world.plan.settings, now_ms=world.now)
        self.queries: dict[str, SimulatedQuery] = {}
        self.tick_at: int | None = None
        self.ticked_at = -1
        self.ticks = 0
        self.steps = 0
        self.write_delay_ms = 0
        self.thaws_at = 0

    def frozen(self, act: Callable[..., None], *args: object) -> bool:
        """Whether the process is stopped. Then it does this when it goes on, as if no time had passed."""
        if self.world.now >= self.thaws_at:
            return False
        self.world.at(self.thaws_at - self.world.now, act, *args)
        return True

    def tell(self, event: Event) -> None:
        """A fact is on its way to the core of this process."""
        self.world.message(self.take, event)

    def take(self, event: Event) -> None:
        """The core takes in a fact, and its orders are carried out."""
        if not self.alive or self.frozen(self.take, event):
            return
        kind = type(event)
        if kind in WITHOUT_DEADLINES:
            self._step(event)
            return
        if self.state.now_ms != self.world.now and kind is not BatchCommitted and kind is not Ticked:
            self._step(Ticked(self.world.now))
        self._step(event)
        self._wake()
        if self is self.world.official:
            self.world.supervise()

    def _step(self, event: Event) -> None:
        if not self.alive:
            return
        world = self.world
        if world.log is not None:
            world.log.append(f"{world.now:>6} {self.name} < {event}")
        told = self.state.story
        rested = self.state.phase in AT_REST
        try:
            self.state, effects = step(self.state, event)
            self.steps += 1
            if self.steps % CHECK_EVERY == 0:
                invariants.check(self.state)
        except Exception as error:  # noqa: BLE001 - whatever the core raises is a finding
            world.violation(f"{type(error).__name__}: {error}")
            return
        if world.on_step is not None:
            world.on_step(self, told)
        for effect in effects:
            self._perform(effect)
        if self.state.phase in AT_REST and not rested:
            world.rests(self)

    def _perform(self, effect: Effect) -> None:
        world = self.world
        if not self.alive:
            return
        world.effects += 1
        if world.crash_before == world.effects:
            world.crash(self)
            return
        if world.log is not None:
            world.log.append(f"{world.now:>6} {self.name} > {effect}")
        if world.on_effect is not None:
            world.on_effect(world, self, effect)
        HANDLERS[type(effect)](self, effect)
        if world.crash_after == world.effects:
            world.crash(self)

    def _wake(self) -> None:
        """See to it that the clock ticks when the core wants to hear it."""
        if not self.alive:
            return
        deadline = timing.next_deadline(self.state)
        if deadline is not None and (self.tick_at is None or deadline < self.tick_at):
            self.tick_at = max(deadline, self.world.now)
            self.world.at(self.tick_at - self.world.now, self._tick, self.tick_at)

    def _tick(self, due: int) -> None:
        if self.tick_at == due:
            self.tick_at = None
            self.ticks = self.ticks + 1 if self.ticked_at == due else 0
            self.ticked_at = due
            if self.ticks > TICKS_MAX:
                self.world.violation(f"{self.name} wants to hear the time at {due} ms again and again")
                return
            self.take(Ticked(self.world.now))


class World:
    """Everything there is."""

    def __init__(self, plan: WorldPlan, log: list[str] | None = None) -> None:
        """Set the scene; nothing has happened yet."""
        self.plan = plan
        self.log = log
        self.rng = Random(plan.seed * 2 + 1)
        self.now = 0
        self.events = 0
        self.effects = 0
        self.crashes = 0
        self.violations: list[str] = []
        self.over = False
        self.ending = ""
        self.weather = 0
        self.declines: dict[str, int] = {}
        self.slow: dict[str, int] = {}
        self.windows = any(fault.kind == "ask-drain" for fault in plan.faults)
        """Queries keep rows in windows, until the next batch or the end of time."""
        self.outliving_ms = 0
        """Executors outlive their drivers and their queries: what they had begun to write comes so late at most."""
        self.crash_before = -1
        self.crash_after = -1
        self.on_effect: Callable[[World, Process, Effect], None] | None = None
        self.on_step: Callable[[Process, tuple[str, ...]], None] | None = None
        self._queue: list[tuple[int, int, Callable[..., None], tuple[object, ...]]] = []
        self._number = 0
        self.disk = Disk()
        self.sinks = {str(sink): SimSink(str(sink), lambda: self.now) for sink in plan.graph.owner}
        for sink in self.sinks.values():
            sink.room = plan.room
        self.tables = {str(sink): SimTable(versioned=bool(n % 2)) for n, sink in enumerate(plan.graph.owner, plan.seed)}
        self.checker = Checker(self, _shape(plan))
        self.store = SimulatedStore(self, self.checker.created)
        self.graph = plan.graph
        self.renamed: tuple[tuple[OperatorUid, OperatorUid], ...] = ()
        self.processes: list[Process] = []
        self.official: Process | None = None
        self.electing = False
        self.run_after_drain = False
        """A user has seen the job stop drained, and starts it once more: nothing may come of that."""
        self._requests = 0

    # -- time and messages ---------------------------------------------------------------------------------------------

    def at(self, delay_ms: int, act: Callable[..., None], *args: object) -> None:
        """Do something later."""
        self._number += 1
        heappush(self._queue, (self.now + delay_ms, self._number, act, args))

    def message(self, act: Callable[..., None], *args: object) -> None:
        """Send something that may be late, come twice, be overtaken, or get lost."""
        rng = self.rng
        if self.weather:
            chance = rng.random()
            if chance < 0.05 * self.weather:
                return
            if chance < 0.1 * self.weather:
                self.at(1 + int(rng.random() ** 4 * 900), act, *args)
            self.at(1 + int(rng.random() * 12 * self.weather), act, *args)
            return
        self.at(1 if rng.random() < 0.7 else 2, act, *args)

    def run(self) -> WorldVerdict:
        """Let the world run to its end."""
        for fault in self.plan.faults:
            self.at(fault.at_ms, self._strike, fault)
        self.at(TROUBLE_MS, self._calm)
        self.elect()
        queue = self._queue
        deadline = TROUBLE_MS + CALM_MS
        while queue and not self.over:
            self.now, _, act, args = heappop(queue)
            self.events += 1
            act(*args)
            if self.now > deadline:
                self.violation(f"no progress: the job has not ended {CALM_MS} ms after the last fault")
        if not self.over:
            self.violation("no progress: nothing is left to happen, and the job has not ended")
        return WorldVerdict(
            seed=self.plan.seed,
            violations=tuple(self.violations),
            events=self.events,
            crashes=self.crashes,
            completed_checkpoints=self.checker.completed,
            ending=self.ending,
        )

    def violation(self, what: str) -> None:
        """Something happened that must not. The world ends here."""
        self.violations.append(f"at {self.now} ms: {what}")
        if self.log is not None:
            self.log.append(f"{self.now:>6} VIOLATION {what}")
        self.over = True

    def rests(self, process: Process) -> None:
        """A process has come to rest, unless it died on the way."""
        if process.alive:
            self.checker.at_rest(process.name)

    def missing(self, generation: int, what: str) -> None:
        """Something is not there. A process that no longer leads must bear that; for all others it is a violation."""
        if not self.checker.superseded(generation):
            self.violation(what)

    # -- leadership ----------------------------------------------------------------------------------------------------

    def elect(self, *, again: bool = False) -> None:
        """Let a new process lead: a user starts the job ``again``, or it takes over. Who led before may not know."""
        self.electing = False
        process = Process(self, f"L{len(self.processes)}", self.graph)
        self.processes.append(process)
        self.official = process
        process.take(LeadershipWon(LeaderId(process.name), Restore(again=again, renamed=self.renamed)))

    def supervise(self) -> None:
        """See whether the job has come to its end, or needs a new leader."""
        process = self.official
        if process is None or self.over or self.electing:
            return
        phase, ending = process.state.phase, process.state.termination.ending
        drained = ending is Ending.STOPPED and self.checker.drained is not None
        over = ending in (Ending.FINISHED, Ending.CANCELLED) or (drained and self.run_after_drain)
        if phase is Phase.CLOSED and over and ending is not None:
            self._end(process, ending)
        elif phase in (Phase.CLOSED, Phase.DEPOSED) or not process.alive:
            self.electing = True
            self.run_after_drain |= drained
            self.at(ELECTION_MS, self._elect_later, phase is Phase.CLOSED)

    def _elect_later(self, again: bool) -> None:  # noqa: FBT001 - the queue passes plain arguments
        self.elect(again=again)

    def _end(self, process: Process, ending: Ending) -> None:
        self.ending = ending.value
        self.over = True
        try:
            invariants.check(process.state)
        except HeadgateError as error:
            self.violation(str(error))
        if ending is Ending.FINISHED:
            self._land_all()
            self.checker.finished()
        elif ending is Ending.STOPPED:
            self._land_all()
            self.checker.stopped_drained()
        else:
            self.checker.interrupted()

    def _land_all(self) -> None:
        """Whoever was frozen or forgotten writes what it had begun to, after the end."""
        for process in self.processes:
            for query in process.queries.values():
                query.outlives_ms = 1
                query.outlive()
        for table in self.tables.values():
            table.land_all()

    def crash(self, process: Process) -> None:
        """A process dies, and its queries with it. What it had sent is on its way."""
        if not process.alive:
            return
        self.crashes += 1
        process.alive = False
        if self.log is not None:
            self.log.append(f"{self.now:>6} {process.name} dies")
        for query in process.queries.values():
            query.kill(None)
        self.supervise()

    # -- faults --------------------------------------------------------------------------------------------------------

    def _strike(self, fault: Fault) -> None:
        if self.log is not None:
            self.log.append(f"{self.now:>6} FAULT {fault}")
        FAULTS[fault.kind](self, fault)

    def _calm(self) -> None:
        """From here on nothing goes wrong any more, and nobody believes what is not so."""
        self.weather = self.store.trouble = self.outliving_ms = 0
        self.declines.clear()
        self.crash_before = self.crash_after = -1
        for sink in self.sinks.values():
            sink.failing_commits = sink.failing_pre_commits = 0
        for name in list(self.slow):
            self.slow_down(name, 1)
        for process in self.processes:
            process.write_delay_ms = 0
            if process is not self.official:
                process.take(LeadershipLost(LeaderId(process.name)))
        self.supervise()

    def slow_down(self, task: str, factor: int) -> None:
        """A task takes this many times as long for everything."""
        self.slow[task] = factor
        for process in self.processes:
            if task in process.queries:
                process.queries[task].slow = factor

    def request(self, process: Process) -> RequestId:
        """A user is about to ask a process for something."""
        self._requests += 1
        request = RequestId(f"r{self._requests}")
        self.checker.asked(str(request), process.name)
        return request


def _shape(plan: WorldPlan) -> Shape:
    graph = plan.graph
    return Shape(
        mode=plan.settings.mode.value,
        num_retained=plan.settings.num_retained,
        max_batches_ahead=plan.settings.max_batches_ahead,
        aligned=not plan.settings.unaligned
        and plan.settings.aligned_checkpoint_timeout_ms is None
        and plan.room is None,
        leftovers_ms=plan.settings.leftovers_max_ms + LOOK_LATE_MS,
        held_up=_held_up(plan),
        channels=tuple((str(c.id), str(c.upstream), str(c.downstream)) for c in graph.channels),
        sinks=tuple((str(sink), str(task)) for sink, task in graph.owner.items()),
        records={str(task): count for task, count in plan.records.items()},
    )


def _held_up(plan: WorldPlan) -> tuple[tuple[int, int], ...]:
    """Until when each fault holds messages up, and for how long: what is lost meanwhile is asked for again later."""
    again_ms = 4 * plan.settings.resend_ms
    return tuple(
        (fault.at_ms + 2 * fault.lasting_ms + again_ms, 2 * fault.lasting_ms + again_ms)
        for fault in plan.faults
        if fault.kind in HOLDS_UP
    )
