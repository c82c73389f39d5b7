"""Serve all jobs of storages over HTTP: see ``headgate.serve``.

One rule: nothing is served beyond this machine unless it is asked for, and then never without a token of the user's.
"""

import json
import os
import signal
import socket
import threading
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from headgate.cli.app import STORAGE_VARIABLE, JsonOption, opened, refuse, say
from headgate.errors import InvalidOption
from headgate.run.control import HOST, this_machine
from headgate.serve import listening
from headgate.serve.access import ServerAccess, access_for, is_loopback
from headgate.serve.server import StoredJobs
from headgate.store.api import Store

PORT = 8081
"""Flink's, too."""
TOKEN_CHARACTERS_MIN = 16


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(server)


def server(
    storages: Annotated[
        list[str] | None,
        typer.Argument(metavar="STORAGE...", help=f"Where the jobs are.  [default: ${STORAGE_VARIABLE}]"),
    ] = None,
    host: Annotated[str, typer.Option(metavar="ADDRESS", help="Where to listen.")] = HOST,
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any that is free.")] = PORT,
    tls_cert: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A certificate in PEM: HTTPS in place of HTTP.")
    ] = None,
    tls_key: Annotated[Path | None, typer.Option(metavar="FILE", help="Its key, in PEM.")] = None,
    token_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The token, and in a second line one that only reads. Else they are made."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Serve the REST API, and the web UI, for all jobs of storages: those that run and those that have ended.

    Prints the address, with the token behind the #, and serves until Ctrl-C or SIGTERM. Jobs that run on this machine
    are asked, and can be commanded; of others the storage tells. Beyond this machine nothing is served unless --host
    says so, and then only with --token-file; use --tls-cert and --tls-key then.

    Example: headgate server file:///data/headgate

    Exit codes: 0 it was told to end, 2 it cannot serve as given.
    """
    named = storages or [each for each in [os.environ.get(STORAGE_VARIABLE)] if each]
    if not named:
        refuse(f"no storage is given: headgate server STORAGE..., or set {STORAGE_VARIABLE}")
    if (tls_cert is None) != (tls_key is None):
        refuse("--tls-cert and --tls-key go together: give both, or none")
    tls = None if tls_cert is None or tls_key is None else listening.tls_context(tls_cert, tls_key)
    if not is_loopback(host) and token_file is None:
        refuse(f"--host {host} can be reached from other machines: say --token-file FILE, with a token in it")
    if not is_loopback(host) and tls is None:
        say(f"warning: {host} is served without TLS, so that others can read the token: give --tls-cert, --tls-key")
    access = _access(host, token_file)
    over = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: over.set())
    with ExitStack() as stack:
        stores = [_there(stack.enter_context(opened(each))) for each in named]
        about = {"pid": os.getpid(), "machine": this_machine(), "job": None, "leader": None}
        bound = _bind(host, port)
        jobs = StoredJobs(stores, about, lambda text: say(f"warning: {text}"))
        serving = listening.HttpServer(bound, jobs, access, tls)
        serving.start()
        _announce(bound, access, secure=tls is not None, made=token_file is None, as_json=as_json)
        over.wait()
        jobs.close()
        serving.close()


def _there(store: Store) -> Store:
    if store.local_root is not None and not store.local_root.is_dir():
        refuse(f"{store.uri}: there is no such directory; give the storage that the jobs' files name")
    return store


def _access(host: str, token_file: Path | None) -> ServerAccess:
    """The tokens. Those of a file are for its owner alone, as those are that a job writes."""
    if token_file is None:
        return ServerAccess()
    try:
        lines = token_file.read_text(encoding="ascii").split()
        mode = token_file.stat().st_mode
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidOption(f"--token-file {token_file} cannot be read: {error}") from None
    if mode & 0o077:
        raise InvalidOption(f"--token-file {token_file} can be read by others: chmod 600 {token_file}")
    if not 1 <= len(lines) <= 2 or any(len(token) < TOKEN_CHARACTERS_MIN for token in lines):
        raise InvalidOption(
            f"--token-file {token_file}: write a token of {TOKEN_CHARACTERS_MIN} characters or more, and perhaps in a "
            "second line one that only reads; such as `openssl rand -hex 16` prints"
        )
    if len(set(lines)) < len(lines):
        raise InvalidOption(f"--token-file {token_file}: both tokens are the same; the one that only reads must differ")
    return access_for(host, lines[0], lines[1] if len(lines) == 2 else None)


def _bind(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        del kind, protocol
        return socket.create_server(address[:2], family=family, backlog=listening.BACKLOG)
    except OSError as error:
        raise InvalidOption(
            f"{host}:{port} cannot be served: {error.strerror or error}; choose another --port"
        ) from None


def _announce(bound: socket.socket, access: ServerAccess, *, secure: bool, made: bool, as_json: bool) -> None:
    """Say where. Tokens of a file are known to whoever wrote it, and are not printed."""
    host, port = bound.getsockname()[:2]
    address = f"{'https' if secure else 'http'}://{f'[{host}]' if ':' in host else host}:{port}/"
    if as_json:
        tokens = {"token": access.token, "read_token": access.read_token} if made else {}
        typer.echo(json.dumps({"address": address, "host": host, "port": port, "pid": os.getpid(), **tokens}))
    else:
        typer.echo(f"{address}#token={access.token}" if made else address)
