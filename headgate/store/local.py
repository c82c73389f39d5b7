"""A storage that is a folder on this machine.

One rule: a value is there as a whole and on the disk, with its name and the folders above it, or not at all: see
``headgate.durable``.

Folders that are made here, from the root down, are for their owner alone unless ``directory_mode`` says otherwise.
"""

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from headgate.access import OWNER_ONLY
from headgate.durable import linked, publish, publish_if_absent, sync, temporary, write
from headgate.errors import BadStorage, ExternalError, HeadgateError
from headgate.store.api import TEMPORARY, Entry, Forbidden, Missing, check_path

_FORBIDDEN = (errno.EACCES, errno.EPERM, errno.EROFS)
_IN_THE_WAY = (errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ENOTEMPTY)
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class LocalStore:
    """The storage in the folder ``root``, which is made with the first value in it. Links are not followed."""

    def __init__(self, root: Path, directory_mode: int = OWNER_ONLY) -> None:
        self._root = root.absolute()
        self._directory_mode = directory_mode

    @property
    def uri(self) -> str:
        """``file://`` and the folder's path."""
        return f"file://{self._root}"

    @property
    def local_root(self) -> Path:
        """The folder."""
        return self._root

    def read(self, path: str) -> bytes:
        """See ``Store.read``."""
        target = self._at(path)
        with reporting(target):
            try:
                return target.read_bytes()
            except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
                raise Missing(str(target)) from None

    def put(self, path: str, data: bytes, *, secret: bool = False) -> None:
        """See ``Store.put``."""
        target = self._at(path)
        with reporting(target), temporary(target, TEMPORARY) as temp:
            self._write(temp, data, 0o600 if secret else 0o666)
            publish(temp, target)

    def create_if_absent(self, path: str, data: bytes) -> bool:
        """See ``Store.create_if_absent``."""
        target = self._at(path)
        with reporting(target), temporary(target, TEMPORARY) as temp:
            self._write(temp, data)
            return publish_if_absent(temp, target)

    def list(self, prefix: str = "", *, depth: int | None = None) -> Iterator[Entry]:
        """See ``Store.list``."""
        top = self._at(prefix) if prefix else self._root
        folders = [(str(top), f"{prefix}/" if prefix else "", 1)]
        while folders:
            folder, path, level = folders.pop()
            with reporting(folder):
                for found in _scan(folder):
                    if found.is_dir(follow_symlinks=False):
                        if depth is None or level < depth:
                            folders.append((found.path, f"{path}{found.name}/", level + 1))
                    elif found.is_file(follow_symlinks=False) and not found.name.startswith(TEMPORARY):
                        with suppress(FileNotFoundError):  # it went meanwhile
                            yield Entry(f"{path}{found.name}", found.stat(follow_symlinks=False).st_size)

    def delete(self, *paths: str) -> None:
        """See ``Store.delete``. Each folder is flushed once, this many paths at once cost little."""
        folders: dict[Path, None] = {}
        for path in paths:
            target = self._at(path)
            with reporting(target), suppress(FileNotFoundError, NotADirectoryError, IsADirectoryError):
                target.unlink()
                folders[target.parent] = None
        for folder in folders:
            with reporting(folder), suppress(FileNotFoundError):
                sync(folder)

    def copy_in(self, local: Path, path: str, *, link: bool = False) -> None:
        """See ``Store.copy_in``."""
        target = self._at(path)
        with reporting(f"{target} (from {local})"), temporary(target, TEMPORARY) as temp:
            _need(local)
            self._make_folders(target.parent)
            _duplicate(local, temp, link=link)
            sync(temp)
            publish(temp, target)

    def copy_out(self, path: str, local: Path, *, link: bool = False) -> None:
        """See ``Store.copy_out``."""
        source = self._at(path)
        with reporting(f"{local} (from {source})"), temporary(local, TEMPORARY) as temp:
            _need(source)
            local.parent.mkdir(parents=True, exist_ok=True)
            _duplicate(source, temp, link=link)
            temp.replace(local)

    def _at(self, path: str) -> Path:
        return self._root / check_path(path)

    def _write(self, temp: Path, data: bytes, mode: int = 0o666) -> None:
        try:
            write(temp, data, mode)
        except FileNotFoundError:
            self._make_folders(temp.parent)
            write(temp, data, mode)

    def _make_folders(self, folder: Path) -> None:
        if folder.is_dir():
            return
        self._make_folders(folder.parent)
        with suppress(FileExistsError):
            folder.mkdir(self._directory_mode if folder.is_relative_to(self._root) else 0o777)
        sync(folder.parent)


@contextmanager
def reporting(where: Path | str) -> Iterator[None]:
    """Say in one line what the system says in a number."""
    try:
        yield
    except OSError as error:
        raise _told(error, where) from error


# -- helpers -------------------------------------------------------------------------------------------------------


def _told(error: OSError, where: Path | str) -> HeadgateError:
    why = (error.strerror or str(error)).lower()
    if error.errno in _FORBIDDEN:
        return Forbidden(f"{where} cannot be used: {why}; give this user the right to read and write there")
    if error.errno in _IN_THE_WAY:
        return BadStorage(f"{where} cannot be used: a file is where a folder should be, or the other way round ({why})")
    if error.errno in _FULL:
        return ExternalError(f"{where} could not be written: {why}; make room there")
    return ExternalError(f"{where} could not be reached: {why}")


def _need(source: Path) -> None:
    if not source.is_file():
        raise Missing(str(source))


def _duplicate(source: Path, temp: Path, *, link: bool) -> None:
    if not link or not linked(source, temp):
        shutil.copyfile(source, temp)


def _scan(folder: str) -> Iterator[os.DirEntry[str]]:
    """What is in a folder. Nothing if it is not there, or is none."""
    try:
        found = os.scandir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return
    with found:
        yield from found
