"""The checkpoint log against a store that answers late, twice, wrongly or never, and against other leaders."""

from dataclasses import dataclass, field

from hypothesis import given, strategies as st

from headgate.core import checkpoint_log, recovery
from headgate.core.checkpoint_log import Answer, CheckpointLog
from headgate.core.evolve import evolve
from headgate.core.ids import NO_CHECKPOINT, CheckpointId, Generation, LeaderId
from headgate.core.records import AbortedEntry, CompletedCheckpoint, Ending, EpochRecord, Record
from tests.helpers import ALICE, BOB, aborted_entry, completed, ids, line, transaction
from tests.tiers import examples

GRAPH = line("a")
FIRST = Generation(1)
GIVEN = transaction(1, 0, 1)


# -- one leader ----------------------------------------------------------------------------------------------------


@dataclass
class Publisher:
    """Alice's checkpoint log, the store, and every answer that was ever given.

    Answers may be given again at any time.
    """

    links: CheckpointLog = field(default_factory=lambda: CheckpointLog(CheckpointId(0), (), CheckpointId(0)))
    store: dict[int, Record] = field(default_factory=dict)
    answers: list[tuple[str, Record]] = field(default_factory=list)
    settled: list[int] = field(default_factory=list)
    """The ids of the records that were reported as ours, in that order."""
    deposed: bool = False

    def ask(self, skipped: int) -> None:
        below = CheckpointId(self.links.last + 1 + skipped)
        before = self.links
        records = (*checkpoint_log.aborted_entries(before, below, FIRST, ALICE), completed(GRAPH, below))
        self.links, first = checkpoint_log.enqueue(before, records)
        assert first == (None if before.queue else records[0]), "one is ordered at a time"

    def create(self, answer: str) -> None:
        """The store carries out the create under way, or not, and says what it says."""
        if not self.links.queue:
            return
        head = self.links.queue[0]
        if answer != "lost":
            there = self.store.setdefault(head.id, head)
            answer = "created" if there is head and answer == "created" else "taken" if answer == "created" else answer
        else:
            there = head
        self.answers.append((answer, there))
        self.hear(len(self.answers) - 1)

    def foreign(self, ahead: int) -> None:
        """Bob's record comes to stand in some place where ours should go."""
        number = self.links.recorded + 1 + ahead
        self.store.setdefault(number, aborted_entry(number, generation=2, leader=BOB))

    def hear(self, pick: int) -> None:
        if not self.answers:
            return
        answer, record = self.answers[pick % len(self.answers)]
        before, ours = self.links, None
        match answer:
            case "created":
                self.links, ours = checkpoint_log.created(before, record.generation, record.id)
            case "taken":
                self.links, meaning, ours = checkpoint_log.taken(before, record)
                assert (meaning is Answer.OURS) == (ours is not None)
                assert (meaning is Answer.STALE) == (not before.queue or before.queue[0].id != record.id)
                self.deposed |= meaning is Answer.FOREIGN
                assert meaning is not Answer.FOREIGN or record.leader == BOB
            case _:
                self.links = checkpoint_log.unclear(
                    before, record.generation, record.id, now_ms=0, retry_ms=1, retry_max_ms=9
                )
        if ours is None:
            assert (self.links.queue, self.links.recorded) == (before.queue, before.recorded)
        else:
            assert self.store[ours.id].leader == ALICE, "a record that the store does not hold is not ours"
            assert ours == before.queue[0]
            self.settled.append(ours.id)

    def check(self) -> None:
        assert self.settled == list(range(1, self.links.recorded + 1)), "no id is skipped, none comes twice"
        assert ids(self.links.queue) == list(range(self.links.recorded + 1, self.links.last + 1))
        assert self.store.get(self.links.recorded, aborted_entry(0)).leader == ALICE, "nobody passes a foreign record"


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("ask"), st.integers(0, 3)),
            st.tuples(st.sampled_from(["created", "landed unheard", "lost"]), st.just(0)),
            st.tuples(st.just("again"), st.integers(0, 20)),
            st.tuples(st.just("foreign"), st.integers(0, 3)),
        ),
        max_size=40,
    )
)
def test_whatever_the_store_answers_no_id_is_skipped_and_no_foreign_record_is_ours(
    operations: list[tuple[str, int]],
) -> None:
    publisher = Publisher()
    for name, number in operations:
        match name:
            case "ask":
                publisher.ask(number)
            case "again":
                publisher.hear(number)
            case "foreign":
                publisher.foreign(number)
            case _:
                publisher.create(name)
        publisher.check()
    for _ in publisher.links.queue:
        publisher.create("created")
    publisher.check()
    in_the_way = [n for n, record in publisher.store.items() if record.leader == BOB and n <= publisher.links.last]
    assert publisher.deposed == bool(in_the_way), "a foreign record in the way is always noticed"
    assert publisher.links.recorded == min(in_the_way, default=publisher.links.last + 1) - 1


# -- several leaders -----------------------------------------------------------------------------------------------


@dataclass
class Leader:
    """One process that believes it may lead, and a create of its own that may still land, unheard."""

    name: LeaderId
    links: CheckpointLog | None = None
    generation: Generation | None = None
    next_id: CheckpointId = NO_CHECKPOINT
    used: list[int] = field(default_factory=list)
    sent: Record | None = None

    def read(self, store: dict[int, Record]) -> None:
        """Begin a generation: see the checkpoint log as it stands, and want the next place in it."""
        records = tuple(store[number] for number in sorted(store))
        epoch_record = checkpoint_log.epoch_record(records, self.name, None, self.next_id)
        tail = records[-1].id if records else NO_CHECKPOINT
        self.generation = None
        self.links, _ = checkpoint_log.enqueue(CheckpointLog(tail, (), tail), (epoch_record,))

    def use(self) -> None:
        """Start a checkpoint."""
        if self.links is not None and self.generation is not None and checkpoint_log.may_use(self.links, self.next_id):
            self.used.append(self.next_id)
            self.next_id = CheckpointId(self.next_id + 1)

    def publish(self) -> None:
        """The newest checkpoint is ready; those before it are given up."""
        if self.links is not None and self.generation is not None and self.next_id - 1 > self.links.last:
            newest = CheckpointId(self.next_id - 1)
            records = checkpoint_log.aborted_entries(self.links, newest, self.generation, self.name)
            last = completed(GRAPH, newest, generation=self.generation, leader=self.name)
            self.links, _ = checkpoint_log.enqueue(self.links, (*records, last))

    def send(self) -> None:
        if self.links is not None and self.links.queue:
            self.sent = self.links.queue[0]

    def land(self, store: dict[int, Record]) -> Record | None:
        """What was sent long ago reaches the store."""
        late, self.sent = self.sent, None
        if late is None or late.id in store:
            return None
        store[late.id] = late
        return late

    def create(self, store: dict[int, Record]) -> Record | None:
        """The create under way reaches the store. Returns what has newly landed."""
        if self.links is None or not self.links.queue:
            return None
        head = self.links.queue[0]
        new = head.id not in store
        self.links, answer, ours = checkpoint_log.taken(self.links, store.setdefault(head.id, head))
        assert ours == (store[head.id] if answer is Answer.OURS else None), "only what the store holds is ours"
        if answer is Answer.FOREIGN:
            self.links = None
        elif isinstance(ours, EpochRecord):
            self.links, self.generation, self.next_id = checkpoint_log.opened(ours), ours.generation, ours.next_id
        return head if new else None


DEEDS = {
    "read": ("read",),
    "lead": ("read", "create"),
    "lead and use all": ("read", "create", *("use",) * 10),
    "use": ("use",),
    "publish": ("use", "publish"),
    "create": ("create",),
    "send": ("use", "publish", "send"),
    "land": ("land",),
    "lead while a create is out": ("use", "publish", "send", "read", "land", "create"),
    "complete": ("use", "publish", "create", "create"),
}
STEPS = st.lists(st.tuples(st.sampled_from([0, 0, 0, 1, 1, 2]), st.sampled_from(list(DEEDS))), max_size=25)


def play(steps: list[tuple[int, str]]) -> tuple[list[Leader], list[Record]]:
    """Several leaders, each unaware of the others; every record that landed, in the order of landing."""
    leaders = [Leader(LeaderId(name)) for name in ("alice", "bob", "carol")]
    store: dict[int, Record] = {}
    landed: list[Record] = []
    for leader, what in [(leaders[who], what) for who, deed in steps for what in DEEDS[deed]]:
        match what:
            case "read":
                leader.read(store)
            case "use":
                leader.use()
            case "publish":
                leader.publish()
            case "send":
                leader.send()
            case _:
                record = leader.land(store) if what == "land" else leader.create(store)
                landed += [record] if record is not None else []
    return leaders, landed


@examples(400)
@given(STEPS)
def test_once_an_epoch_record_stands_nobody_from_before_it_publishes(steps: list[tuple[int, str]]) -> None:
    _, landed = play(steps)
    generations = [record.generation for record in landed]
    assert generations == sorted(generations)
    assert ids(tuple(landed)) == sorted(ids(tuple(landed))), "the checkpoint log grows at its end only"
    epoch_records = [record.generation for record in landed if isinstance(record, EpochRecord)]
    assert epoch_records == list(dict.fromkeys(generations)), "each generation begins with its one epoch record"
    leads = {record.generation: record.leader for record in landed}
    assert all(leads[record.generation] == record.leader for record in landed), "each generation has one leader"


@examples(400)
@given(STEPS)
def test_no_number_is_used_by_two_checkpoints(steps: list[tuple[int, str]]) -> None:
    leaders, _ = play(steps)
    used = [number for leader in leaders for number in leader.used]
    assert len(used) == len(set(used))


@given(st.integers(1, 6), st.integers(0, 9), st.integers(0, 9))
def test_aborted_entries_fill_exactly_the_ids_that_have_no_record(generation: int, last: int, below: int) -> None:
    links = CheckpointLog(CheckpointId(0), (), CheckpointId(last))
    found = checkpoint_log.aborted_entries(links, CheckpointId(below), Generation(generation), BOB)
    assert found == tuple(
        AbortedEntry(CheckpointId(n), Generation(generation), BOB) for n in range(10) if last < n < below
    )


@st.composite
def logs(draw: st.DrawFn) -> tuple[Record, ...]:
    """Chains as they are left: some records deleted, but never the newest completed one, nor an epoch record."""
    records: list[Record] = []
    generation, number = 0, 0
    for what in draw(
        st.lists(st.sampled_from(["epoch record", "completed", "aborted entry", "ended", "gave up"]), max_size=25)
    ):
        if what in ("completed", "aborted entry") and generation == 0:
            continue
        if what == "completed":
            records.append(completed(GRAPH, number, generation=generation, transactions=(GIVEN,)))
        elif what == "aborted entry":
            records.append(aborted_entry(number, generation=generation))
        else:
            generation += 1
            there = [record.id for record in records if isinstance(record, CompletedCheckpoint)]
            base = draw(st.sampled_from(there)) if there else None
            epoch_record = EpochRecord(
                CheckpointId(number), Generation(generation), ALICE, CheckpointId(number + 1), base
            )
            ending = Ending.STOPPED if what == "ended" else None
            records.append(evolve(epoch_record, ending=ending, abandoned=(GIVEN,) if what == "gave up" else ()))
        number += 1
    newest = [record.id for record in records if isinstance(record, CompletedCheckpoint)][-1:]
    newest += [record.base for record in records if isinstance(record, EpochRecord) and record.base is not None]
    stays = {
        record.id: isinstance(record, EpochRecord) or record.id in newest or draw(st.booleans()) for record in records
    }
    return tuple(record for record in records if stays[record.id])


@given(logs())
def test_a_checkpoint_log_reads_the_same_without_what_its_last_epoch_record_has_made_superfluous(
    first: tuple[Record, ...],
) -> None:
    epoch_records = [place for place, record in enumerate(first) if isinstance(record, EpochRecord)]
    if not epoch_records:
        return
    known = first[: epoch_records[-1] + 1]
    needed = checkpoint_log.needed(known)
    short = tuple(record for record in first if record.id in needed or record.id >= known[-1].id)
    assert recovery.latest(short) == recovery.latest(first)
    assert recovery.choose(short, None) == recovery.choose(first, None)
    assert recovery.owed(short) == recovery.owed(first)
    assert checkpoint_log.epoch_record(short, BOB, None, CheckpointId(0)) == checkpoint_log.epoch_record(
        first, BOB, None, CheckpointId(0)
    )
    telling = [r for r in known if isinstance(r, EpochRecord) and (r.ending is not None or r.abandoned)]
    assert len([r for r in short if isinstance(r, EpochRecord) and r.id < known[-1].id]) <= len(telling) + 1
