"""PostgreSQL from Debian's packages, with its data in a directory of its own.

One rule: durability stays as it ships (fsync on, synchronous commit), so that a kill proves something.
"""

import csv
import io
import os
import shutil
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar
from urllib.parse import quote

from services.account import home_for
from services.server import HOST, Server, ServiceError, first_line


class Postgres(Server):
    """A PostgreSQL server on the loopback.

    Args:
        directory: its data and log.
        port: the port for clients; a free one when not given.
        max_prepared_transactions: how many transactions may wait between PREPARE and COMMIT PREPARED. 0 forbids them.
        user: the super user.
        password: the super user's password. Every connection must give one.
        settings: further settings of the server.

    """

    name = "postgres"
    account: ClassVar[str | None] = "postgres"
    stop_signal: ClassVar[signal.Signals] = signal.SIGINT  # "fast": end all sessions, write a checkpoint, go

    def __init__(
        self,
        directory: Path | str,
        *,
        port: int | None = None,
        max_prepared_transactions: int = 64,
        user: str = "headgate",
        password: str = "headgate-secret",  # noqa: S107 - a server that lives for one test
        settings: Mapping[str, str | int] | None = None,
    ) -> None:
        super().__init__(directory, port=port)
        self.user = user
        self.password = password
        self._settings: dict[str, str | int] = {
            "max_prepared_transactions": max_prepared_transactions,
            "max_connections": 60,
            "shared_buffers": "32MB",
            **(settings or {}),
        }

    def dsn(self, database: str = "postgres", *, user: str | None = None, password: str | None = None) -> str:
        """The address of a database, with user and password."""
        who = f"{quote(user or self.user, safe='')}:{quote(password or self.password, safe='')}"
        return f"postgresql://{who}@{HOST}:{self.port}/{quote(database, safe='')}"

    def query(self, sql: str, database: str = "postgres") -> list[tuple[str, ...]]:
        """What the real ``psql`` prints for the statements: rows of texts, with NULL as an empty one.

        Statements that give no rows give nothing here. Each statement is a transaction of its own.
        """
        done = self._psql(sql, database)
        if done.returncode != 0:
            raise ServiceError(f"psql failed: {first_line(done.stderr)}")
        return [tuple(row) for row in csv.reader(io.StringIO(done.stdout, newline=""))]

    def create_database(self, name: str) -> None:
        """Make a database unless it is there."""
        if not self.query(f"SELECT 1 FROM pg_database WHERE datname = '{name}'"):  # noqa: S608 - a test's own name
            self.query(f'CREATE DATABASE "{name}"')

    def prepare(self) -> None:
        """Make the database cluster the first time."""
        data = home_for(self.other_account(), self.directory) / "data"
        if not (data / "PG_VERSION").exists():
            self._initialise(data)

    def command(self) -> list[str]:
        """The server."""
        settings = {
            **self._settings,
            "port": self.port,
            "listen_addresses": HOST,
            "unix_socket_directories": "",  # the loopback will do, and its names have no limit of length
            "log_min_messages": "warning",
        }
        options = [part for key, value in settings.items() for part in ("-c", f"{key}={value}")]
        return [str(_binary("postgres")), "-D", str((self.directory / "home").resolve() / "data"), *options]

    def environment(self) -> dict[str, str]:
        """Without the caller's settings for clients, and with messages in English."""
        return {key: value for key, value in os.environ.items() if not key.startswith("PG")} | {"LC_ALL": "C.UTF-8"}

    def ready(self) -> bool:
        """Whether it answers a query."""
        return self._psql("SELECT 1", "postgres").returncode == 0

    def _initialise(self, data: Path) -> None:
        account = self.other_account()
        password = data.with_name("password")
        password.write_text(f"{self.password}\n")
        if account is not None:
            shutil.chown(password, account, account)
        try:
            done = subprocess.run(
                [
                    *(str(_binary("initdb")), "--pgdata", str(data), "--username", self.user),
                    *("--pwfile", str(password), "--auth", "scram-sha-256"),
                    *("--encoding", "UTF8", "--locale", "C.UTF-8", "--no-sync"),
                ],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=False,
                cwd="/",
                env=self.environment(),
                user=account,
                group=account,
                extra_groups=None if account is None else [],
            )
        finally:
            password.unlink()
        if done.returncode != 0:
            raise ServiceError(f"postgres cannot make its data: {first_line(done.stderr)}")

    def _psql(self, sql: str, database: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [
                *(str(_binary("psql")), "--no-psqlrc", "--no-password", "--tuples-only", "--csv", "--quiet"),
                *("--set", "ON_ERROR_STOP=1"),
                *("--host", HOST, "--port", str(self.port), "--username", self.user, "--dbname", database),
                *("--file", "-"),
            ],
            input=sql,
            capture_output=True,
            text=True,
            check=False,
            env=self.environment() | {"PGPASSWORD": self.password, "PGCONNECT_TIMEOUT": "10"},
        )


def _binary(name: str) -> Path:
    """A program of the newest PostgreSQL that Debian has installed. Its folder is not on PATH."""
    versions = sorted(Path("/usr/lib/postgresql").glob("*"), key=lambda folder: float(folder.name))
    for folder in reversed(versions):
        if (folder / "bin" / name).exists():
            return folder / "bin" / name
    raise ServiceError(f"PostgreSQL's {name} is not installed: run `make services`")
