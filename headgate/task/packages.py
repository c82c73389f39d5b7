"""The jars that Spark's processes need for what a job reads and writes.

One rule: a jar is fetched once, checked, and then found in a directory of this machine: a job that ran here before
starts without a network. What runs in Spark's processes can do all that the job can: so the jars that are named here
are those whose SHA-256 stands here too, wherever they are found, and nothing is fetched that others on the way could
have exchanged.

A package is named by its Maven coordinates, ``group:artifact:version``, and means that jar alone. Only of Spark's
connector for Kafka is it known here what it needs beside itself: the one of the very version of this PySpark is
preferred, with what its own description names; where there is none, a combination that was tried is taken.
"""

import hashlib
import http.client
import os
import re
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree as ET

from headgate.durable import publish, temporary, write
from headgate.errors import BadStorage, ExternalError, InvalidOption
from headgate.task.logs import logger

JARS_VARIABLE = "HEADGATE_JARS"
REPOSITORY_VARIABLE = "HEADGATE_MAVEN"
INSECURE_VARIABLE = "HEADGATE_MAVEN_INSECURE"
CENTRAL = "https://repo1.maven.org/maven2"
TIMEOUT_S = 20.0
"""A repository that is silent for this long is not there."""

KAFKA = "org.apache.spark:spark-sql-kafka-0-10_2.13"
_TOKENS = "org.apache.spark:spark-token-provider-kafka-0-10_2.13"
_CLIENTS = "org.apache.kafka:kafka-clients"
_POOL = "org.apache.commons:commons-pool2"
TRIED = {
    f"{KAFKA}:4.3.0": (f"{KAFKA}:4.2.0", f"{_TOKENS}:4.0.0", f"{_CLIENTS}:3.9.2", f"{_POOL}:2.13.1"),
}
"""What was tried in place of a connector that may not be there. All else that they need is part of PySpark."""

SHA256 = {
    f"{KAFKA}:4.2.0": "64539c45e5d39f7ddb747312c239f38f5208d08c1a0ddf7d70beb2fbd9373705",
    f"{_TOKENS}:4.0.0": "f2be3b76f9e6cbe63379d4e4e0dc14f59dbf056ae2ad16ff15ac108004c86767",
    f"{_CLIENTS}:3.9.2": "014b4ef36884478a932641818b080c36a8f8e2e92dc771e800c9d2694f4f83d8",
    f"{_POOL}:2.13.1": "f77a5060d6936a9144023584232f9de3f2248f1abfe156e9d31795f18770674f",
}
"""Of every jar in ``TRIED``."""

_COORDINATES = re.compile(r"[\w.-]+:[\w.-]+:[\w.-]+")


class NotThere(ExternalError):
    """The repository answers, and does not have it."""


@dataclass(frozen=True)
class Repository:
    """Where jars come from, and where they are kept."""

    cache: Path
    local: Path
    """Maven's own repository on this machine."""
    remote: str

    @staticmethod
    def usual() -> "Repository":
        """What the environment says, else what is usual."""
        home = Path.home()
        cache = os.environ.get(JARS_VARIABLE) or home / ".cache" / "headgate" / "jars"
        remote = os.environ.get(REPOSITORY_VARIABLE) or _mirror(home / ".m2" / "settings.xml") or CENTRAL
        return Repository(Path(cache).absolute(), home / ".m2" / "repository", remote.rstrip("/"))

    def have(self, coordinates: str, kind: str = "jar") -> Path | None:
        """The file, if it is on this machine."""
        group, artifact, version = coordinates.split(":")
        inside = f"{group.replace('.', '/')}/{artifact}/{version}/{artifact}-{version}.{kind}"
        for path in (self.cache / f"{group}_{artifact}-{version}.{kind}", self.local / inside):
            if path.is_file():
                if kind == "jar":
                    _check_pinned(coordinates, path.read_bytes, str(path))
                return path
        return None

    def get(self, coordinates: str, kind: str = "jar") -> Path:
        """The file, fetched if need be."""
        found = self.have(coordinates, kind)
        return self._fetch(coordinates, kind) if found is None else found

    def _fetch(self, coordinates: str, kind: str) -> Path:
        group, artifact, version = coordinates.split(":")
        url = f"{self.remote}/{group.replace('.', '/')}/{artifact}/{version}/{artifact}-{version}.{kind}"
        content = _read(url)
        digest = hashlib.sha1(content, usedforsecurity=False).hexdigest()
        if _read(f"{url}.sha1").split()[:1] != [digest.encode()]:
            raise ExternalError(f"{url} arrived damaged: try again")
        if kind == "jar":
            _check_pinned(coordinates, lambda: content, url)
        path = self.cache / f"{group}_{artifact}-{version}.{kind}"
        try:
            self.cache.mkdir(parents=True, exist_ok=True)
            with temporary(path) as temp:
                write(temp, content)
                temp.chmod(0o644)
                publish(temp, path)
        except OSError as error:
            raise InvalidOption(
                f"{self.cache} cannot keep jars: {error.strerror}: set {JARS_VARIABLE} to a directory that can"
            ) from error
        return path


def resolve(packages: Iterable[str], repository: Repository | None = None) -> tuple[Path, ...]:
    """The jars of the packages, each once."""
    repository = repository or Repository.usual()
    found: dict[str, Path] = {}
    for package in packages:
        if not _COORDINATES.fullmatch(package):
            raise InvalidOption(f"package {package!r} has no Maven coordinates: write group:artifact:version")
        found |= _resolve(package, repository)
    return tuple(found.values())


def artifact(package: str) -> str:
    """What the names of a package's jars begin with, whatever their version."""
    return package.split(":")[1]


def on_this_machine(package: str, repository: Repository) -> dict[str, Path] | None:
    """The jars of a package, if all of them are here and nothing need be fetched."""
    for tried in _combinations(package, repository, on_this_machine=True):
        there = {each: path for each in tried if (path := repository.have(each)) is not None}
        if len(there) == len(tried):
            return there
    return None


def _resolve(package: str, repository: Repository) -> dict[str, Path]:
    """What is on this machine first, in any combination: a choice that was made once holds."""
    there = on_this_machine(package, repository)
    if there is not None:
        logger.info("for %s Spark gets %s", package, ", ".join(there))
        return there
    problem: ExternalError | None = None
    tried: tuple[str, ...] = (package,)
    try:
        for tried in _combinations(package, repository, on_this_machine=False):
            try:
                there = {each: repository.get(each) for each in tried}
            except NotThere as error:
                problem = error
                continue
            logger.info("for %s Spark gets %s, fetched from %s", package, ", ".join(tried), repository.remote)
            return there
    except ExternalError as error:
        problem = error
    needed = ", ".join(each for each in tried if repository.have(each) is None)
    raise ExternalError(
        f"Spark needs {needed}, neither in {repository.cache} nor at {repository.remote}: {problem}; give this machine "
        f"a network, or set {REPOSITORY_VARIABLE} to a mirror of Maven Central, or {JARS_VARIABLE} to a directory that "
        "has them"
    )


def _combinations(package: str, repository: Repository, *, on_this_machine: bool) -> Iterator[tuple[str, ...]]:
    """The jars that make up a package: the best combination first."""
    if not package.startswith(f"{KAFKA}:"):
        yield (package,)
        return
    try:
        description = repository.have(package, "pom") if on_this_machine else repository.get(package, "pom")
    except NotThere:
        if package not in TRIED:
            raise
        description = None
    if description is not None:
        named = _dependencies(description)
        beside = (f"{each}:{named[each]}" for each in (_TOKENS, _CLIENTS, _POOL) if each in named)
        yield (package, *beside)
    if package in TRIED:
        yield TRIED[package]


def _dependencies(description: Path) -> dict[str, str]:
    """What a package says that it needs, with versions. The first mention is the one that counts for users of it."""
    found: dict[str, str] = {}
    text = description.read_text(encoding="utf-8")
    for block in re.findall(r"<dependency>(.*?)</dependency>", text, re.DOTALL):
        fields = dict(re.findall(r"<(groupId|artifactId|version)>\s*([\w.-]+)\s*</", block))
        if len(fields) == 3:
            found.setdefault(f"{fields['groupId']}:{fields['artifactId']}", fields["version"])
    return found


def _check_pinned(coordinates: str, read: Callable[[], bytes], where: str) -> None:
    """Refuse a jar that is known here, and is another."""
    known = SHA256.get(coordinates)
    if known is None:
        return
    found = hashlib.sha256(read()).hexdigest()
    if found != known:
        raise BadStorage(
            f"{where} is not the {coordinates} that is known (its SHA-256 is {found}, not {known}): it is not used; "
            "find out who put it there, and remove it"
        )


def refuse_plain(url: str) -> None:
    """Refuse what others on the way could exchange, unless the user has said that it may be used."""
    parts = urllib.parse.urlsplit(url)
    here = parts.hostname in ("localhost", "127.0.0.1", "::1")
    if parts.scheme == "http" and not here and os.environ.get(INSECURE_VARIABLE) != "1":
        raise InvalidOption(
            f"jars from {parts.scheme}://{parts.hostname} could be exchanged on the way: use an address with https:, "
            f"or set {INSECURE_VARIABLE}=1 if you trust the network"
        )


def _read(url: str) -> bytes:
    refuse_plain(url)
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT_S) as answer:  # noqa: S310 - the repository is the user's word
            refuse_plain(answer.url)  # It may have led elsewhere.
            return bytes(answer.read())
    except urllib.error.HTTPError as error:
        error.close()
        if error.code in (403, 404, 410):
            raise NotThere(f"{url} is not there") from error
        raise ExternalError(f"{url} answers {error.code}") from error
    except (OSError, http.client.HTTPException, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        raise ExternalError(f"{getattr(reason, 'strerror', None) or reason or type(error).__name__}") from error


def _mirror(settings: Path) -> str | None:
    """The mirror of Maven Central that the user has told Maven of."""
    try:
        tree = ET.fromstring(settings.read_text(encoding="utf-8"))  # noqa: S314 - the user's own file
    except (OSError, ET.ParseError):
        return None
    for mirror in tree.iter():
        if mirror.tag.rpartition("}")[2] == "mirror":
            fields = {field.tag.rpartition("}")[2]: (field.text or "").strip() for field in mirror}
            of = [each.strip() for each in fields.get("mirrorOf", "").split(",")]
            if {"*", "central", "external:*"}.intersection(of) and "!central" not in of:
                return fields.get("url") or None
    return None
