"""A sink with transactions, as a file system, a broker or a database would offer them.

One rule: readers see only what was committed. A part is what one attempt of one batch wrote; a seal gathers the parts
of the batches that count; a commit shows them, once, however often it is asked for; what is thrown away is gone.

Parts and sealed rows wait in the working directory, which can be lost. Copies of the latter stand in the storage.
"""

from headgate.sim.disk import Row, weigh


class SimSink:
    """One sink of the simulated world."""

    def __init__(self, name: str) -> None:
        """Begin empty."""
        self.name = name
        self.parts: dict[tuple[int, int, int], list[Row]] = {}
        """By generation, batch and run."""
        self.sealed: dict[tuple[int, int], list[Row]] = {}
        """By generation and checkpoint."""
        self.stored: dict[tuple[int, int], list[Row]] = {}
        """The same, in the storage."""
        self.committed: dict[tuple[int, int], None] = {}
        self.visible: list[Row] = []
        self.visible_sum = 0
        self.failing_commits = 0
        self.failing_seals = 0

    def write(self, generation: int, batch: int, run: int, rows: list[Row]) -> None:
        """One attempt of one batch writes its part."""
        self.parts[generation, batch, run] = rows

    def seal(self, generation: int, checkpoint: int, batches: list[tuple[int, int]]) -> None:
        """Gather the parts of these (batch, run) into one transaction. A repeat changes nothing.

        A part may have been sealed before, for a checkpoint of which nobody heard: it is gathered again.
        """
        key = (generation, checkpoint)
        if key in self.sealed or key in self.committed:
            return
        rows: list[Row] = []
        for batch, run in batches:
            rows += self.parts.get((generation, batch, run), ())
        self.sealed[key] = rows
        self.stored[key] = rows

    def commit(self, generation: int, checkpoint: int) -> bool:
        """Show a sealed transaction. False if there is none: it was thrown away, or never sealed."""
        key = (generation, checkpoint)
        if key in self.committed:
            return True
        copy = self.stored.pop(key, None)
        rows = self.sealed.pop(key, copy)
        if rows is None:
            return False
        self.committed[key] = None
        self.visible += rows
        self.visible_sum += weigh(rows)
        return True

    def abort_attempts(self, generation: int, run: int, committed: dict[int, int]) -> None:
        """Throw away the parts of runs before ``run``, but for those that committed their batch."""
        for key in list(self.parts):
            made, batch, by = key
            if made == generation and by < run and committed.get(batch) != by:
                del self.parts[key]

    def abort_strangers(self, below: int) -> None:
        """Throw away whatever earlier generations left."""
        for part in [key for key in self.parts if key[0] < below]:
            del self.parts[part]
        for place in (self.sealed, self.stored):
            for transaction in [key for key in place if key[0] < below]:
                del place[transaction]

    def lose(self) -> None:
        """The working directory is gone."""
        self.parts.clear()
        self.sealed.clear()

    def weight(self, generation: int, checkpoint: int) -> int | None:
        """The sum over a transaction that is not visible yet; 0 if it is; None if there is none."""
        if (generation, checkpoint) in self.committed:
            return 0
        key = (generation, checkpoint)
        rows = self.sealed.get(key, self.stored.get(key))
        return None if rows is None else weigh(rows)
