"""What a case is: contenders that do the same, and what comes out of each.

One rule: what came out is looked at before its time counts. A wrong output is no round.
"""

import shutil
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Self, TypeVar

from bench.meter import Used
from bench.peers.installing import BUILD

Settings = Mapping[str, Any]
T = TypeVar("T")


@dataclass(frozen=True)
class Contender:
    """One of those that take turns. ``settings`` has all that differs from what its peer does by itself."""

    name: str
    peer: str
    settings: Settings = field(default_factory=dict)


@dataclass(frozen=True)
class Measured:
    """A round that came out right."""

    values: Mapping[str, float]
    used: Used


class WrongOutput(Exception):
    """A contender put out something else than it should. The message says what."""


class Case(ABC):
    """A comparison. It is entered before its rounds, and left after them."""

    name: ClassVar[str]
    title: ClassVar[str]
    value: ClassVar[str]
    """The figure that is compared."""
    unit: ClassVar[str]
    more_is_better: ClassVar[bool] = False
    full: ClassVar[Settings] = {}
    """The sizes of a full run."""
    quick: ClassVar[Settings] = {}
    """Those of ``make bench-quick``."""
    quickly: ClassVar[Sequence[str] | None] = None
    """The contenders of ``make bench-quick``; None: it is left out there."""
    rounds_max: ClassVar[int] = 100
    """A case whose rounds take minutes has fewer of them."""
    also: ClassVar[Mapping[str, str]] = {}
    """Other figures that the report shows, with their units."""

    def __init__(self, size: Settings, contenders: Sequence[str] = ()) -> None:
        self.size = size
        self.logs = BUILD / "logs" / self.name
        self._only = contenders
        self._stack = ExitStack()

    @abstractmethod
    def every(self) -> Sequence[Contender]:
        """All contenders, in their order of turns."""

    @abstractmethod
    def round(self, contender: Contender) -> Measured:
        """Have a contender do a round, look at what came out, and return what it took."""

    def contenders(self) -> list[Contender]:
        """Those that were asked for."""
        return [each for each in self.every() if not self._only or each.name in self._only]

    def prepare(self) -> None:  # noqa: B027 - most cases need nothing
        """Make what all contenders need. Nothing of this is measured."""

    def warm_up(self, contender: Contender) -> None:  # noqa: B027 - most cases need nothing
        """Bring a contender up, before its first round. Nothing of this is measured."""

    def profile(self, contender: Contender) -> Mapping[str, Any]:  # noqa: ARG002 - for cases that have one
        """Where the time goes, from a round that does not count."""
        return {}

    def __enter__(self) -> Self:
        self._stack.__enter__()
        self.prepare()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, trace)

    def keep(self, manager: AbstractContextManager[T]) -> T:
        """Enter something that is left when the case is."""
        return self._stack.enter_context(manager)


@contextmanager
def scratch() -> Iterator[Path]:
    """A directory on the disk of the benchmark that is gone afterwards."""
    place = BUILD / "scratch"
    place.mkdir(parents=True, exist_ok=True)
    where = Path(tempfile.mkdtemp(dir=place))
    try:
        yield where
    finally:
        shutil.rmtree(where, ignore_errors=True)
