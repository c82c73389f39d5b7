"""All that ``headgate doctor --env`` looks at. One rule: what is looked at does not depend on what is found."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from headgate.doctor import asking, directory, limits, measuring, software
from headgate.doctor.finding import Finding
from headgate.store.api import open_store
from headgate.task import heap


@dataclass(frozen=True)
class JobNeeds:
    """For what the machine is looked at: any job, or one whose file is known."""

    storage: str | None = None
    working_directory: str | None = None
    """None: inside the storage."""
    conf: Mapping[str, str] = field(default_factory=dict)
    master: str | None = None
    packages: tuple[str, ...] | None = None


def examine(needs: JobNeeds, storage_variable: str) -> Iterator[Finding]:
    """Look at everything. A storage that cannot be one is refused before anything is done."""
    places = [
        (role, uri, path_of(uri))
        for role, uri in (("storage", needs.storage), ("working directory", needs.working_directory))
        if uri is not None
    ]
    yield from software.findings(asking.software(needs.conf, needs.master, needs.packages))
    if needs.storage is None:
        yield directory.not_named(storage_variable)
    for role, uri, path in places:
        if path is None:
            yield directory.elsewhere(role, uri)
        else:
            yield from directory.findings(measuring.directory(role, path, records=role == "storage"))
    for found in measuring.temporary_directories():
        yield from directory.findings(found)
    defaults = asking.defaults()
    local = heap.in_one_process(needs.master or needs.conf.get("spark.master") or "local[*]")
    yield from limits.findings(measuring.limits(needs.conf, defaults.conf if defaults is not None else {}, local=local))


def path_of(uri: str) -> Path | None:
    """The directory that a place is on this machine. None if Spark is needed to reach it."""
    if "://" in uri and not uri.lower().startswith("file:"):
        return None
    return open_store(uri).local_root
