"""MariaDB from Debian's packages, with its data in a directory of its own.

One rule: durability stays as it ships (the log is flushed at every commit), so that a kill proves something.
"""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from services.server import HOST, Server, ServiceError, find_program, first_line


class MariaDB(Server):
    """A MariaDB server on the loopback.

    Args:
        directory: its data and log.
        port: the port for clients; a free one when not given.
        user: a user with all rights, made at the first start.
        password: that user's password.
        settings: further settings of the server.

    """

    name = "mariadb"

    def __init__(
        self,
        directory: Path | str,
        *,
        port: int | None = None,
        user: str = "headgate",
        password: str = "headgate-secret",  # noqa: S107 - a server that lives for one test
        settings: Mapping[str, str | int] | None = None,
    ) -> None:
        super().__init__(directory, port=port)
        self.user = user
        self.password = password
        self._settings: dict[str, str | int] = {
            "innodb-buffer-pool-size": "64M",
            "innodb-log-file-size": "48M",
            "max-connections": 60,
            "character-set-server": "utf8mb4",
            **(settings or {}),
        }

    def query(self, sql: str, database: str = "") -> list[tuple[str, ...]]:
        """What the real ``mariadb`` client prints for the statements: rows of texts, with NULL as ``NULL``.

        Statements that give no rows give nothing here.
        """
        done = self._client(sql, database)
        if done.returncode != 0:
            # The statement comes first, between two rules, then what is wrong with it.
            errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
            raise ServiceError(f"mariadb failed: {errors[0] if errors else first_line(done.stderr)}")
        return [tuple(_plain(field) for field in line.split("\t")) for line in done.stdout.split("\n")[:-1]]

    def create_database(self, name: str) -> None:
        """Make a database unless it is there."""
        self.query(f"CREATE DATABASE IF NOT EXISTS `{name}`")

    def prepare(self) -> None:
        """Make the data directory the first time, and the statements that each start runs to make the user."""
        if not (self._data / "mysql").is_dir():
            self._install()
        self._users.write_text(
            f"CREATE USER IF NOT EXISTS '{self.user}'@'%' IDENTIFIED BY '{self.password}';\n"
            f"GRANT ALL ON *.* TO '{self.user}'@'%' WITH GRANT OPTION;\n"
        )

    def command(self) -> list[str]:
        """The server."""
        settings = {
            **self._settings,
            "datadir": self._data,
            "init-file": self._users,
            "port": self.port,
            "bind-address": HOST,
            "socket": "server.sock",  # below the data directory, so that the length of its path does not matter
            "pid-file": self.directory / "server.pid",
        }
        options = [f"--{key}={value}" for key, value in settings.items()]
        return [find_program("mariadbd"), "--no-defaults", "--skip-name-resolve", *_as_root(), *options]

    def ready(self) -> bool:
        """Whether it answers the user's query."""
        return self._client("SELECT 1", "").returncode == 0

    @property
    def _data(self) -> Path:
        return self.directory / "data"

    @property
    def _users(self) -> Path:
        return self.directory / "users.sql"

    def _install(self) -> None:
        done = subprocess.run(
            [
                *(find_program("mariadb-install-db"), "--no-defaults", *_as_root(), f"--datadir={self._data}"),
                *("--skip-test-db", "--skip-name-resolve", "--auth-root-authentication-method=normal"),
            ],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise ServiceError(f"mariadb cannot make its data: {first_line(done.stderr)}")

    def _client(self, sql: str, database: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [
                *(find_program("mariadb"), "--no-defaults", "--batch", "--skip-column-names", "--connect-timeout=10"),
                *("--protocol=tcp", f"--host={HOST}", f"--port={self.port}", f"--user={self.user}"),
                *("--default-character-set=utf8mb4", f"--database={database}"),
            ],
            input=sql,
            capture_output=True,
            text=True,
            check=False,
            env=dict(os.environ) | {"MYSQL_PWD": self.password},
        )


def _as_root() -> tuple[str, ...]:
    """MariaDB runs as root only when it is told so by name."""
    return ("--user=root",) if os.geteuid() == 0 else ()


def _plain(field: str) -> str:
    r"""The text of a field, in which the client has written tab, newline, NUL and backslash as \t, \n, \0 and \\."""
    escapes = {"t": "\t", "n": "\n", "0": "\0", "\\": "\\"}
    parts = iter(field.split("\\"))
    text = next(parts)
    for part in parts:
        # An empty part lies between two backslashes: one backslash, and the next part is plain.
        text += escapes[part[0]] + part[1:] if part else "\\" + next(parts, "")
    return text
