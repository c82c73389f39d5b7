"""A server that is asked over TLS, and must be who it says."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import cast

import pytest

from headgate.connect import mariadb as connect
from headgate.connect.mariadb.address import Address
from headgate.connect.mariadb.session import connected
from headgate.errors import InvalidOption
from headgate.testing import context_in
from services.mariadb import MariaDB
from services.tls import Certificates
from tests.connect.mariadb.places import build, make_table, xa

pytestmark = pytest.mark.heavy


@pytest.fixture(scope="module")
def certificates() -> Iterator[Certificates]:
    with TemporaryDirectory() as directory:
        # The server runs as a user of its own, who must be able to read them.
        Path(directory).chmod(0o755)
        made = Certificates(Path(directory))
        made.make()
        made.key.chmod(0o644)
        yield made


@pytest.fixture(scope="module")
def server(certificates: Certificates, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MariaDB]:
    settings = {"ssl-cert": str(certificates.certificate), "ssl-key": str(certificates.key)}
    with MariaDB(tmp_path_factory.mktemp("mariadb-tls"), settings=settings) as started:
        yield started


def test_with_an_authority_the_connection_is_by_tls(
    server: MariaDB, certificates: Certificates, tmp_path: Path
) -> None:
    sink = build(xa, server, make_table(server, tmp_path), ssl_ca=str(certificates.authority))
    sink.open(context_in(tmp_path))
    with connected(cast("Address", vars(sink)["_address"])) as session:
        assert session.ask("SHOW STATUS LIKE 'Ssl_cipher'")[0][1]


def test_a_server_that_another_authority_signed_is_refused(server: MariaDB, tmp_path: Path) -> None:
    other = Certificates(tmp_path / "other")
    other.make()
    sink = build(connect.sink, server, make_table(server, tmp_path), ssl_ca=str(other.authority))
    with pytest.raises(InvalidOption, match=r"is not who it should be.*check host and ssl_ca"):
        sink.open(context_in(tmp_path))


def test_a_file_of_an_authority_that_is_not_there_is_said(server: MariaDB, tmp_path: Path) -> None:
    sink = build(connect.sink, server, make_table(server, tmp_path), ssl_ca=str(tmp_path / "absent.crt"))
    with pytest.raises(InvalidOption, match="cannot use the files of certificates"):
        sink.open(context_in(tmp_path))
