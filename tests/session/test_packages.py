"""The jars that sources and sinks need, fetched from a real repository that is on this machine."""

import hashlib
import http.server
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from headgate import state_backend
from headgate.errors import BadStorage, ExternalError, InvalidOption
from headgate.task import packages
from headgate.task.packages import KAFKA, TRIED, Repository, resolve
from headgate.task.session import JAR, settings_for

PACKAGE = "org.example:thing:1.2"
CONNECTOR = f"{KAFKA}:4.3.0"
NOBODY = "http://127.0.0.1:9"


class Served(http.server.SimpleHTTPRequestHandler):
    """A directory as a Maven repository."""

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - its name there
        """Be quiet."""


@pytest.fixture
def remote(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    root = tmp_path / "remote"
    root.mkdir()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), lambda *given: Served(*given, directory=str(root)))
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield root, f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()
    thread.join()


def put(root: Path, package: str, content: bytes = b"jar", kind: str = "jar", digest: str | None = None) -> None:
    group, artifact, version = package.split(":")
    path = root / group.replace(".", "/") / artifact / version / f"{artifact}-{version}.{kind}"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    path.with_name(f"{path.name}.sha1").write_text(digest or hashlib.sha1(content).hexdigest())  # noqa: S324


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch) -> tuple[str, ...]:
    """The jars that were tried, as ``put`` puts them."""
    digest = hashlib.sha256(b"jar").hexdigest()
    monkeypatch.setattr(packages, "SHA256", dict.fromkeys(packages.SHA256, digest))
    return TRIED[CONNECTOR]


def repository(tmp_path: Path, remote: str) -> Repository:
    return Repository(tmp_path / "cache", tmp_path / "m2", remote)


def test_a_jar_is_fetched_once_and_then_needs_no_network(tmp_path: Path, remote: tuple[Path, str]) -> None:
    put(remote[0], PACKAGE, b"content")
    (jar,) = resolve([PACKAGE, PACKAGE], repository(tmp_path, remote[1]))
    assert jar.read_bytes() == b"content"
    assert resolve([PACKAGE], repository(tmp_path, NOBODY)) == (jar,)
    assert list((tmp_path / "cache").iterdir()) == [jar]


def test_a_jar_that_maven_has_is_not_fetched(tmp_path: Path) -> None:
    put(tmp_path / "m2", PACKAGE)
    assert resolve([PACKAGE], repository(tmp_path, NOBODY))[0].is_relative_to(tmp_path / "m2")


def test_a_jar_that_arrives_damaged_is_not_kept(tmp_path: Path, remote: tuple[Path, str]) -> None:
    put(remote[0], PACKAGE, digest="0" * 40)
    with pytest.raises(ExternalError, match=r"arrived damaged"):
        resolve([PACKAGE], repository(tmp_path, remote[1]))
    assert not (tmp_path / "cache").exists()


def test_without_network_and_jar_one_line_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ExternalError) as refused:
        resolve([PACKAGE], repository(tmp_path, NOBODY))
    said = str(refused.value)
    assert said.startswith(f"Spark needs {PACKAGE}, neither in {tmp_path}/cache nor at {NOBODY}: ")
    assert "HEADGATE_MAVEN" in said
    assert "HEADGATE_JARS" in said
    assert "\n" not in said


def test_a_jar_that_nobody_has_is_named(tmp_path: Path, remote: tuple[Path, str]) -> None:
    with pytest.raises(ExternalError, match=r"thing-1\.2\.jar is not there"):
        resolve([PACKAGE], repository(tmp_path, remote[1]))


@pytest.mark.parametrize("wrong", ["thing", "org.example:thing", "org.example:thing:1:2", "a/b:c:d", ""])
def test_what_is_no_coordinates_is_refused(tmp_path: Path, wrong: str) -> None:
    with pytest.raises(InvalidOption, match=r"write group:artifact:version"):
        resolve([wrong], repository(tmp_path, NOBODY))


def test_a_cache_that_cannot_be_written_is_named(tmp_path: Path, remote: tuple[Path, str]) -> None:
    put(remote[0], PACKAGE)
    (tmp_path / "cache").write_text("a file")
    with pytest.raises(InvalidOption, match=r"cannot keep jars: .*HEADGATE_JARS"):
        resolve([PACKAGE], repository(tmp_path, remote[1]))


DESCRIPTION = b"""<project><dependencies>
<dependency><groupId>org.apache.spark</groupId><artifactId>spark-token-provider-kafka-0-10_2.13</artifactId>
  <version>4.3.0</version><scope>compile</scope></dependency>
<dependency><groupId>org.apache.kafka</groupId><artifactId>kafka-clients</artifactId><version>4.1.0</version></dependency>
<dependency><groupId>org.apache.commons</groupId><artifactId>commons-pool2</artifactId><version>2.12.1</version>
</dependency></dependencies></project>"""


def test_the_connector_of_the_very_version_is_preferred_with_what_it_needs(
    tmp_path: Path, remote: tuple[Path, str], tried: tuple[str, ...]
) -> None:
    matching = (
        CONNECTOR,
        "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.3.0",
        "org.apache.kafka:kafka-clients:4.1.0",
        "org.apache.commons:commons-pool2:2.12.1",
    )
    put(remote[0], CONNECTOR, DESCRIPTION, "pom")
    for package in (*matching, *tried):
        put(remote[0], package)
    names = [jar.name for jar in resolve([CONNECTOR], repository(tmp_path, remote[1]))]
    assert names == [f"{'_'.join(each.split(':')[:2])}-{each.split(':')[2]}.jar" for each in matching]
    assert [jar.name for jar in resolve([CONNECTOR], repository(tmp_path, NOBODY))] == names


def test_where_a_part_of_that_is_not_there_a_combination_that_was_tried_is_taken(
    tmp_path: Path, remote: tuple[Path, str], tried: tuple[str, ...], caplog: pytest.LogCaptureFixture
) -> None:
    put(remote[0], CONNECTOR, DESCRIPTION, "pom")
    put(remote[0], CONNECTOR)
    for package in tried:
        put(remote[0], package)
    with caplog.at_level("INFO", "headgate"):
        found = resolve([CONNECTOR], repository(tmp_path, remote[1]))
    assert [jar.name.rpartition("-")[2] for jar in found] == ["4.2.0.jar", "4.0.0.jar", "3.9.2.jar", "2.13.1.jar"]
    assert f"for {CONNECTOR} Spark gets {', '.join(tried)}" in caplog.text
    assert resolve([CONNECTOR], repository(tmp_path, NOBODY)) == found


def test_a_connector_that_is_nowhere_is_named_with_all_that_is_missing(
    tmp_path: Path, remote: tuple[Path, str]
) -> None:
    with pytest.raises(ExternalError) as refused:
        resolve([CONNECTOR], repository(tmp_path, remote[1]))
    assert all(each in str(refused.value) for each in TRIED[CONNECTOR])
    with pytest.raises(ExternalError, match=rf"Spark needs {KAFKA}:9\.9\.9"):
        resolve([f"{KAFKA}:9.9.9"], repository(tmp_path, remote[1]))


@pytest.mark.parametrize(
    ("of", "found"),
    [
        ("central", "http://mirror"),
        ("*", "http://mirror"),
        ("*,!central", packages.CENTRAL),
        ("mine", packages.CENTRAL),
    ],
)
def test_the_mirror_that_maven_knows_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, of: str, found: str
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("HEADGATE_JARS", "HEADGATE_MAVEN"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / ".m2").mkdir()
    mirror = f"<mirrors><mirror><mirrorOf>{of}</mirrorOf><url>http://mirror/</url></mirror></mirrors>"
    space = "http://maven.apache.org/SETTINGS/1.0.0"
    (tmp_path / ".m2" / "settings.xml").write_text(f'<settings xmlns="{space}">{mirror}</settings>')
    usual = Repository.usual()
    assert (usual.remote, usual.cache) == (found, tmp_path / ".cache" / "headgate" / "jars")
    monkeypatch.setenv("HEADGATE_MAVEN", "http://said")
    monkeypatch.setenv("HEADGATE_JARS", "/there")
    assert (Repository.usual().remote, Repository.usual().cache) == ("http://said", Path("/there"))


def test_of_every_jar_that_was_tried_the_checksum_is_known() -> None:
    named = {each for combination in TRIED.values() for each in combination}
    assert named == set(packages.SHA256)
    assert all(len(digest) == 64 for digest in packages.SHA256.values())


def test_a_jar_that_was_exchanged_at_the_repository_is_refused_though_its_checksum_there_fits(
    tmp_path: Path, remote: tuple[Path, str]
) -> None:
    for package in TRIED[CONNECTOR]:
        put(remote[0], package, b"something else")
    with pytest.raises(BadStorage, match=r"is not the \S+ that is known .* it is not used"):
        resolve([CONNECTOR], repository(tmp_path, remote[1]))
    assert not (tmp_path / "cache").exists()


def test_a_jar_that_was_exchanged_on_this_machine_is_refused(tmp_path: Path) -> None:
    for package in TRIED[CONNECTOR]:
        put(tmp_path / "m2", package, b"something else")
    with pytest.raises(BadStorage, match=r"m2/\S+ is not the \S+ that is known"):
        resolve([CONNECTOR], repository(tmp_path, NOBODY))


def test_what_others_on_the_way_could_exchange_is_refused_unless_it_is_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    far = repository(tmp_path, "http://mirror.invalid/maven")
    monkeypatch.delenv("HEADGATE_MAVEN_INSECURE", raising=False)
    with pytest.raises(InvalidOption, match=r"jars from http://mirror.invalid could be exchanged .* with https:"):
        resolve([PACKAGE], far)
    put(tmp_path / "m2", PACKAGE)
    assert len(resolve([PACKAGE], far)) == 1
    monkeypatch.setenv("HEADGATE_MAVEN_INSECURE", "1")
    with pytest.raises(ExternalError, match=r"nor at http://mirror.invalid/maven"):
        resolve(["org.example:other:1"], far)


@pytest.mark.parametrize("master", ["local[2]", "spark://host:7077"])
def test_jars_are_where_the_driver_and_the_executors_look(master: str) -> None:
    conf = {"spark.driver.extraClassPath": "/mine.jar"}
    found = settings_for("orders", master=master, conf=conf, state=state_backend.rocksdb(), beside=(Path("/a.jar"),))
    assert found["spark.driver.extraClassPath"] == f"/mine.jar:{JAR}:/a.jar"
    assert found.get("spark.jars") == (None if master.startswith("local") else f"{JAR},/a.jar")
