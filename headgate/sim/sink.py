"""A sink with transactions, as a file system, a broker or a database would offer them.

One rule: readers see only what was committed. A part is what one attempt of one batch wrote; a pre-commit gathers the
parts of the batches that count; a commit shows them, once, however often it is asked for; what is thrown away is gone.

Parts and pre-committed rows wait in the working directory, which can be lost. Copies of the latter stand in the
storage.
"""

from collections.abc import Callable

from headgate.sim.disk import SimRow, weigh


class SimSink:
    """One sink of the simulated world."""

    def __init__(self, name: str, clock: Callable[[], int] = lambda: 0) -> None:
        """Begin empty."""
        self.name = name
        self.clock = clock
        self.parts: dict[tuple[int, int, int], list[SimRow]] = {}
        """By generation, batch and run."""
        self.pre_committed: dict[tuple[int, int], list[SimRow]] = {}
        """By generation and checkpoint."""
        self.stored: dict[tuple[int, int], list[SimRow]] = {}
        """The same, in the storage."""
        self.gathered: dict[tuple[int, int], list[tuple[int, int, int]]] = {}
        """The parts of each of those."""
        self.reach: dict[tuple[int, int], int] = {}
        """The last batch of each of those."""
        self.room: int | None = None
        """How many parts may be there that are not visible. None: any number."""
        self.since: dict[tuple[int, ...], int] = {}
        """When each part and each pre-committed transaction came."""
        self.committed: dict[tuple[int, int], None] = {}
        self.visible: list[SimRow] = []
        self.visible_sum = 0
        self.failing_commits = 0
        self.failing_pre_commits = 0

    def write(self, generation: int, batch: int, run: int, rows: list[SimRow]) -> None:
        """One attempt of one batch writes its part."""
        self.parts[generation, batch, run] = rows
        self.since[generation, batch, run] = self.clock()

    def has_room(self, write_id: tuple[int, int, int]) -> bool:
        """Whether one more part can be written. One that an earlier run left for the same batch is written over."""
        if self.room is None:
            return True
        same = [key for key in self.parts if key[:2] == write_id[:2]]
        return bool(same) or len(self.parts) < self.room

    def pre_commit(self, generation: int, checkpoint: int, batches: list[tuple[int, int]]) -> None:
        """Gather the parts of these (batch, run) into one transaction. A repeat changes nothing.

        A part may have been pre-committed before, for a checkpoint of which nobody heard: it is gathered again.
        """
        key = (generation, checkpoint)
        if key in self.pre_committed or key in self.committed:
            return
        rows: list[SimRow] = []
        for batch, run in batches:
            rows += self.parts.get((generation, batch, run), ())
        self.pre_committed[key] = rows
        self.stored[key] = rows
        self.gathered[key] = [(generation, batch, run) for batch, run in batches]
        self.reach[key] = batches[-1][0] if batches else -1
        self.since[key] = self.clock()

    def commit(self, generation: int, checkpoint: int) -> bool:
        """Show a pre-committed transaction. False if there is none: it was thrown away, or never pre-committed."""
        key = (generation, checkpoint)
        if key in self.committed:
            return True
        copy = self.stored.pop(key, None)
        rows = self.pre_committed.pop(key, copy)
        if rows is None:
            return False
        self.committed[key] = None
        for part in self.gathered.pop(key, ()):
            self.parts.pop(part, None)
        self.visible += rows
        self.visible_sum += weigh(rows)
        return True

    def abort_failed_attempts(self, generation: int, run: int, committed: dict[int, int]) -> None:
        """Throw away the parts of runs before ``run``, but for those that committed their batch."""
        for key in list(self.parts):
            made, batch, by = key
            if made == generation and by < run and committed.get(batch) != by:
                del self.parts[key]

    def left_by(self, below: int) -> list[tuple[int, ...]]:
        """What generations before ``below`` have there that nobody can see."""
        parts: list[tuple[int, ...]] = [key for key in self.parts if key[0] < below]
        return parts + [key for key in self.pre_committed if key[0] < below]

    def abort_stale_generations(self, below: int) -> None:
        """Throw away whatever earlier generations left."""
        for part in [key for key in self.parts if key[0] < below]:
            del self.parts[part]
        for place in (self.pre_committed, self.stored):
            for transaction in [key for key in place if key[0] < below]:
                del place[transaction]

    def lose(self) -> None:
        """The working directory is gone."""
        self.parts.clear()
        self.pre_committed.clear()

    def abort_unpublished(self, generation: int, after: int) -> None:
        """Throw away what a generation wrote after a batch."""
        for part in [key for key in self.parts if key[0] == generation and key[1] > after]:
            del self.parts[part]
        for place in (self.pre_committed, self.stored):
            for transaction in [key for key in place if key[0] == generation and self.reach[key] > after]:
                del place[transaction]

    def weight(self, generation: int, checkpoint: int) -> int | None:
        """The sum over a transaction that is not visible yet; 0 if it is; None if there is none."""
        if (generation, checkpoint) in self.committed:
            return 0
        key = (generation, checkpoint)
        rows = self.pre_committed.get(key, self.stored.get(key))
        return None if rows is None else weigh(rows)
