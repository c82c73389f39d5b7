"""A storage that may hang, asked without hanging with it.

One rule: whoever asks waits for a while and no longer, and while somebody has waited that long nobody else is sent
there. So a storage that hangs keeps the threads that were on their way to it, and none of those that serve.
"""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import TypeVar

from headgate.errors import ExternalError
from headgate.redact import redact
from headgate.store.api import Entry, Store

Found = TypeVar("Found")

ANSWER_S = 10.0
"""A storage that has not answered after this time is taken to hang, until it does."""


class PatientStore:
    """A storage, for looking alone."""

    def __init__(self, store: Store) -> None:
        """Nobody waits."""
        self._store = store
        self._lock = threading.Lock()
        self._waiting: dict[Future[object], float] = {}
        """What is being asked, and since when."""

    @property
    def uri(self) -> str:
        """See ``Store.uri``."""
        return self._store.uri

    @property
    def local_root(self) -> Path | None:
        """See ``Store.local_root``."""
        return self._store.local_root

    def read(self, path: str) -> bytes:
        """See ``Store.read``."""
        return self._ask(lambda: self._store.read(path))

    def list(self, prefix: str = "", *, depth: int | None = None) -> Iterator[Entry]:
        """See ``Store.list``."""
        return iter(self._ask(lambda: tuple(self._store.list(prefix, depth=depth))))

    def put(self, path: str, data: bytes, *, secret: bool = False) -> None:
        """Nothing is written."""
        raise NotImplementedError(path)

    def create_if_absent(self, path: str, data: bytes) -> bool:
        """Nothing is written."""
        raise NotImplementedError(path)

    def delete(self, *paths: str) -> None:
        """Nothing is written."""
        raise NotImplementedError(*paths)

    def copy_in(self, local: Path, path: str, *, link: bool = False) -> None:
        """Nothing is written."""
        raise NotImplementedError(path)

    def copy_out(self, path: str, local: Path, *, link: bool = False) -> None:
        """See ``Store.copy_out``."""
        self._ask(lambda: self._store.copy_out(path, local, link=link))

    def _ask(self, ask: Callable[[], Found]) -> Found:
        """Have a thread ask that may stay away."""
        now_s, found = time.monotonic(), Future[Found]()
        with self._lock:
            if now_s - min(self._waiting.values(), default=now_s) >= ANSWER_S:
                raise self._silent()
            self._waiting[found] = now_s  # type: ignore[index]

        def run() -> None:
            try:
                found.set_result(ask())
            except BaseException as error:  # noqa: BLE001 - it is raised where somebody waits
                found.set_exception(error)
            finally:
                with self._lock:
                    del self._waiting[found]  # type: ignore[arg-type]

        threading.Thread(target=run, name="headgate-look", daemon=True).start()
        try:
            return found.result(ANSWER_S)
        except TimeoutError:
            raise self._silent() from None

    def _silent(self) -> ExternalError:
        return ExternalError(
            f"{redact(self.uri)} has not answered for {ANSWER_S:g} s: see whether it can be reached from here"
        )
