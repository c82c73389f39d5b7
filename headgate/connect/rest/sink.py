"""What sinks share that write rows under keys to a server that is reached by HTTP.

One rule: a sink asks for the place that it writes to before anything runs, and says what is wrong there.
"""

from abc import abstractmethod

from headgate.connect.rest.client import OPEN_SECONDS, Asking, Response, RestClient
from headgate.connect.rest.endpoint import Endpoint, warn_of_login
from headgate.connect.rest.writer import Bounds
from headgate.core.ids import SinkId
from headgate.sink.api import SinkContext
from headgate.sink.idempotent import IdempotentSink


class RestSink(IdempotentSink):
    """A subclass says ``describe``, ``writer``, where to ask about its target, and what the answer means."""

    _who: str
    """Whose errors they are: what makes it, until a job has given it a name."""

    def __init__(self, place: Endpoint, *, target: str, keys: tuple[str, ...], fenced: bool, bounds: Bounds) -> None:
        """All checked by whoever makes it. ``target``: the index or table."""
        self._place = place
        self._target = target
        self._keys = keys
        self._fenced = fenced
        self._bounds = bounds
        self._context = SinkContext("", SinkId(""))

    @property
    def fenced(self) -> bool:
        """By the versions or timestamps that Headgate gives rows, unless they are the user's, or the server's."""
        return self._fenced

    def open(self, context: SinkContext) -> None:
        """See that the server is there and lets us in, and that it has what is written to."""
        self._who = f"sink {context.sink}"
        warn_of_login(self._who, self._place)
        self._context = context
        with RestClient(self._place) as client:
            answer = client.ask("GET", self._description, asking=Asking(OPEN_SECONDS, self._who))
        self._check(answer)

    @property
    @abstractmethod
    def _description(self) -> str:
        """Where the server describes the target."""

    @abstractmethod
    def _check(self, answer: Response) -> None:
        """``InvalidOption`` unless the description is of something that rows can be written to."""
