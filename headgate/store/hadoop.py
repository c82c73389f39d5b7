"""A storage behind any of Hadoop's file systems, through the JVM that Spark runs in.

One rule: only what a file system does in one step is used to publish, and one that cannot create a file in one step,
whole and only if there is none, is refused. There are three ways:

- *rename* (HDFS): written under a temporary name, then renamed. The name node does that in one step, and fails where
  something is if it is told to.
- *on close* (S3, and what is like it): an object appears, whole, when its stream is closed, and the store itself fails
  where there is one if it is told to.
- *link* (``file:``): Hadoop's local file system looks first and renames then, and deletes before it replaces. So the
  last step is our own: ``headgate.durable``.

Each call into the JVM takes about 0.1 ms; a listing needs several for each entry.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import Any
from uuid import uuid4

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from headgate.durable import publish, publish_if_absent, temporary
from headgate.errors import BadStorage, ExternalError, HeadgateError, InvalidOption
from headgate.store.api import TEMPORARY, Entry, Forbidden, Missing, check_path
from headgate.store.local import reporting

_CONDITIONAL = "fs.option.create.conditional.overwrite"
"""Hadoop's name for "fail on close if there is an object by then", both as an option and as what a store can do."""
_JARS = {"s3a": "org.apache.hadoop:hadoop-aws"}

_NO_CLASS = ("UnsupportedFileSystemException", "ClassNotFoundException", "NoClassDefFoundError")
_ABSENT = ("FileNotFoundException", "ParentNotDirectoryException")
_TAKEN = ("FileAlreadyExistsException", "RemoteFileChangedException")
_FORBIDDEN = ("AccessControlException", "AccessDeniedException")
_IN_THE_WAY = ("FileAlreadyExistsException", "ParentNotDirectoryException", "PathIsDirectoryException")


class _Way(Enum):
    RENAME = "rename"
    ON_CLOSE = "on close"
    LINK = "link"


class HadoopStore:
    """The storage at ``uri``, for as long as ``spark`` lives."""

    def __init__(self, spark: SparkSession, uri: str) -> None:
        self._uri = uri.rstrip("/")
        self._scheme = uri.partition(":")[0].lower()
        try:
            gateway: Any = spark.sparkContext._gateway  # noqa: SLF001 - there is no public way to the JVM
        except PySparkException as error:
            raise InvalidOption(f"storage {uri} needs a Spark session with its own JVM, not Spark Connect") from error
        self._gateway = gateway
        self._jvm = gateway.jvm
        self._hadoop = self._jvm.org.apache.hadoop.fs
        self._configuration: Any = spark._jsc.hadoopConfiguration()  # noqa: SLF001 - as above
        self._fs = self._connect()
        self._way = self._choose_way()
        self._root: str = self._at("").toUri().getPath().rstrip("/")

    @property
    def uri(self) -> str:
        """Where it is, as it was given."""
        return self._uri

    @property
    def local_root(self) -> None:
        """None: it is reached through Hadoop alone."""

    def read(self, path: str) -> bytes:
        """See ``Store.read``."""
        with self._reporting(path, reading=True):
            stream = self._fs.open(self._at(check_path(path)))
            try:
                return bytes(stream.readAllBytes())
            finally:
                stream.close()

    def put(self, path: str, data: bytes, *, secret: bool = False) -> None:
        """See ``Store.put``. An object store has no owners of single files: there its own policies say who reads."""
        self._put(path, lambda out: out.write(data), secret=secret)

    def create_if_absent(self, path: str, data: bytes) -> bool:
        """See ``Store.create_if_absent``."""
        target = self._at(check_path(path))
        with self._reporting(path):
            if self._way is _Way.ON_CLOSE:
                builder = self._fs.createFile(target).overwrite(True).recursive().must(_CONDITIONAL, True)
                return _unless_taken(lambda: self._write(builder.build(), lambda out: out.write(data)))
            with self._temporary(path) as temp:
                self._write(self._fs.create(self._at(temp), False), lambda out: out.write(data))
                if self._way is _Way.LINK:
                    return publish_if_absent(self._file(temp), self._file(path))
                return _unless_taken(lambda: self._rename(temp, path, "NONE"))

    def list(self, prefix: str = "", *, depth: int | None = None) -> Iterator[Entry]:
        """See ``Store.list``."""
        # Where folders are only a way to write names, all below one comes in one listing.
        flat = depth is None and self._way is _Way.ON_CLOSE
        folders = [(prefix and check_path(prefix), 1)]
        while folders:
            folder, level = folders.pop()
            for status in self._scan(folder, flat=flat):
                path = status.getPath().toUri().getPath().removeprefix(f"{self._root}/")
                if status.isDirectory():
                    if depth is None or level < depth:
                        folders.append((path, level + 1))
                elif path != folder and not path.rpartition("/")[2].startswith(TEMPORARY):
                    yield Entry(path, status.getLen())

    def delete(self, *paths: str) -> None:
        """See ``Store.delete``."""
        for path in paths:
            target = self._at(check_path(path))
            try:
                with self._reporting(path, reading=True):
                    if self._fs.getFileStatus(target).isFile():
                        self._fs.delete(target, False)
            except Missing:
                continue

    def copy_in(self, local: Path, path: str, *, link: bool = False) -> None:  # noqa: ARG002 - it cannot be linked
        """See ``Store.copy_in``."""
        if not local.is_file():
            raise Missing(str(local))

        def fill(out: Any) -> None:
            source = self._jvm.java.io.FileInputStream(str(local.absolute()))
            try:
                self._jvm.org.apache.hadoop.io.IOUtils.copyBytes(source, out, self._configuration, False)
            finally:
                source.close()

        self._put(path, fill)

    def copy_out(self, path: str, local: Path, *, link: bool = False) -> None:  # noqa: ARG002 - it cannot be linked
        """See ``Store.copy_out``."""
        with self._reporting(path, reading=True), temporary(local.absolute(), TEMPORARY) as temp:
            source = self._fs.open(self._at(check_path(path)))
            with reporting(local):
                local.parent.mkdir(parents=True, exist_ok=True)
                temp.touch()
            out = self._jvm.java.io.FileOutputStream(str(temp))
            self._jvm.org.apache.hadoop.io.IOUtils.copyBytes(source, out, self._configuration, True)
            temp.replace(local)

    # -- how a value gets its name ---------------------------------------------------------------------------------

    def _put(self, path: str, fill: Callable[[Any], None], *, secret: bool = False) -> None:
        target = self._at(check_path(path))
        with self._reporting(path):
            if self._way is _Way.ON_CLOSE:
                self._write(self._fs.create(target, True), fill)
                return
            with self._temporary(path) as temp:
                out = self._fs.create(self._at(temp), False)
                if secret:  # Before anything is in it.
                    self._fs.setPermission(self._at(temp), self._hadoop.permission.FsPermission("600"))
                self._write(out, fill)
                if self._way is _Way.LINK:
                    publish(self._file(temp), self._file(path))
                else:
                    self._rename(temp, path, "OVERWRITE")

    def _write(self, out: Any, fill: Callable[[Any], None]) -> None:
        try:
            fill(out)
            if self._way is not _Way.ON_CLOSE:
                out.hsync()
        except BaseException:
            if self._way is _Way.ON_CLOSE:
                out.abort()  # a close would publish what there is
            else:
                out.close()
            raise
        out.close()

    def _rename(self, temp: str, path: str, option: str) -> None:
        # Not FileSystem.rename: it says neither why it did nothing, nor what it does to a file that is there.
        options = self._gateway.new_array(self._hadoop.Options.Rename, 1)
        options[0] = self._hadoop.Options.Rename.valueOf(option)
        context = self._hadoop.FileContext.getFileContext(self._fs.getUri(), self._configuration)
        context.rename(self._at(temp), self._at(path), options)

    @contextmanager
    def _temporary(self, path: str) -> Iterator[str]:
        folder, slash, _ = path.rpartition("/")
        temp = f"{folder}{slash}{TEMPORARY}{uuid4().hex}"
        try:
            yield temp
        finally:
            self._fs.delete(self._at(temp), False)

    # -- helpers ---------------------------------------------------------------------------------------------------

    def _connect(self) -> Any:
        try:
            where = self._at("").toUri()
            if self._scheme != "file":
                return self._hadoop.FileSystem.get(where, self._configuration)
            own = self._hadoop.FileSystem.newInstance(where, self._configuration)
            own.setWriteChecksum(False)  # a second file beside each could not be published in the same step
        except (Py4JError, PySparkException) as error:
            name, why = _described(error)
            if name not in _NO_CLASS and not any(word in why for word in _NO_CLASS):
                raise _told(error, self._uri) from error
            jar = _JARS.get(self._scheme)
            version = self._jvm.org.apache.hadoop.util.VersionInfo.getVersion()
            remedy = (
                f"add {jar}:{version} to spark.jars.packages"
                if jar
                else f"put its jar on Spark's class path, and its class into spark.hadoop.fs.{self._scheme}.impl"
            )
            raise InvalidOption(
                f"storage {self._uri}: Spark has no file system for {self._scheme!r}; {remedy}"
            ) from error
        return own

    def _choose_way(self) -> _Way:
        if self._scheme == "file":
            return _Way.LINK
        if self._scheme == "hdfs":
            return _Way.RENAME
        with self._reporting(""):
            if self._fs.hasPathCapability(self._at(""), _CONDITIONAL):
                return _Way.ON_CLOSE
        raise InvalidOption(
            f"storage {self._uri}: {self._scheme!r} cannot create a file only if there is none, which records need"
            f" ({_CONDITIONAL}); use a local folder, hdfs, or s3a with fs.s3a.create.conditional.enabled"
        )

    def _scan(self, folder: str, *, flat: bool) -> Iterator[Any]:
        """What is in a folder. Nothing if it is not there."""
        try:
            with self._reporting(folder, reading=True):
                where = self._at(folder)
                found = self._fs.listFiles(where, True) if flat else self._fs.listStatusIterator(where)
                while found.hasNext():
                    yield found.next()
        except Missing:
            return

    def _at(self, path: str) -> Any:
        return self._hadoop.Path(f"{self._uri}/{path}")

    def _file(self, path: str) -> Path:
        return Path(self._root, path)

    @contextmanager
    def _reporting(self, path: str, *, reading: bool = False) -> Iterator[None]:
        where = f"{self._uri}/{path}"
        try:
            with reporting(where):
                yield
        except (Py4JError, PySparkException) as error:
            if reading and _described(error)[0] in _ABSENT:
                raise Missing(where) from None
            raise _told(error, where) from error


def _unless_taken(act: Callable[[], None]) -> bool:
    try:
        act()
    except Py4JJavaError as error:
        if _described(error)[0] in _TAKEN:
            return False
        raise
    return True


def _told(error: Exception, where: str) -> HeadgateError:
    """Say in one line what Java says in many."""
    name, why = _described(error)
    if name in _FORBIDDEN:
        return Forbidden(f"{where} cannot be used: {why}; give this user the right to read and write there")
    if name in _IN_THE_WAY:
        return BadStorage(f"{where} cannot be used: a file is where a folder should be, or the other way round ({why})")
    return ExternalError(f"{where} could not be reached: {name}: {why}")


def _described(error: Exception) -> tuple[str, str]:
    """The class of a Java exception, and the first line of what it says."""
    if not isinstance(error, Py4JJavaError):
        return type(error).__name__, str(error).partition("\n")[0] or "Spark's JVM does not answer"
    thrown = error.java_exception
    name, why = str(thrown.getClass().getSimpleName()), str(thrown.getMessage()).partition("\n")[0]
    # What HDFS calls a matter of rights: on the way there is a file.
    return "ParentNotDirectoryException" if why.endswith("(is not a directory)") else name, why
