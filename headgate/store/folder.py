"""A folder of a storage, as a storage of its own.

One rule: every path that goes in or comes out begins at the folder.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from headgate.store.api import Entry, Store, check_path


class Folder:
    """The storage below ``name`` in ``store``. Guarantees are those of ``store``."""

    def __init__(self, store: Store, name: str) -> None:
        self._store = store
        self._name = check_path(name)

    @property
    def uri(self) -> str:
        """Where it is, in the words of a user."""
        return f"{self._store.uri}/{self._name}"

    @property
    def local_root(self) -> Path | None:
        """The folder that it is, if it is one on this machine."""
        root = self._store.local_root
        return None if root is None else root / self._name

    def read(self, path: str) -> bytes:
        """See ``Store.read``."""
        return self._store.read(self._in(path))

    def put(self, path: str, data: bytes, *, secret: bool = False) -> None:
        """See ``Store.put``."""
        self._store.put(self._in(path), data, secret=secret)

    def create_if_absent(self, path: str, data: bytes) -> bool:
        """See ``Store.create_if_absent``."""
        return self._store.create_if_absent(self._in(path), data)

    def list(self, prefix: str = "", *, depth: int | None = None) -> Iterator[Entry]:
        """See ``Store.list``."""
        for entry in self._store.list(self._in(prefix) if prefix else self._name, depth=depth):
            yield replace(entry, path=entry.path.removeprefix(f"{self._name}/"))

    def delete(self, *paths: str) -> None:
        """See ``Store.delete``."""
        self._store.delete(*(self._in(path) for path in paths))

    def copy_in(self, local: Path, path: str, *, link: bool = False) -> None:
        """See ``Store.copy_in``."""
        self._store.copy_in(local, self._in(path), link=link)

    def copy_out(self, path: str, local: Path, *, link: bool = False) -> None:
        """See ``Store.copy_out``."""
        self._store.copy_out(self._in(path), local, link=link)

    def _in(self, path: str) -> str:
        return f"{self._name}/{path}"
