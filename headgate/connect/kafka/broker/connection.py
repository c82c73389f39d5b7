"""One socket to one broker, with its login.

One rule: a connection on which anything went wrong is closed, and is never used again.

An answer must come before the deadline, in the order of the requests. What is not Kafka's protocol is said in one
line, with the address and what was found there.

SCRAM proves a password without sending it (RFC 5802 and RFC 7677). The server proves itself too; without its proof
nobody is logged in. A password is taken as UTF-8, as Kafka's own clients do, without the normalisation that the RFC
has.
"""

import base64
import binascii
import hashlib
import hmac
import secrets
import socket
import ssl
import time
from types import TracebackType
from typing import Self, TypeVar

from headgate.connect.kafka.broker import requests
from headgate.connect.kafka.broker.codec import CLASSIC_STRING, INT16, INT32, NO_TAGS, Malformed, Reader, read_tags
from headgate.connect.kafka.broker.problems import UNSUPPORTED_SASL_MECHANISM, check, name_of
from headgate.connect.kafka.broker.requests import Call
from headgate.connect.kafka.security import Sasl, Security
from headgate.errors import ExternalError, InvalidOption, UserError

T = TypeVar("T")

CLIENT_ID = "headgate"
DEFAULT_PORT = 9092
ANSWER_MAX = 100_000_000
"""Bytes. No answer to what is asked here comes near."""
TLS_RECORDS = (b"\x15\x03", b"\x16\x03")
"""How an alert and a handshake of TLS begin."""
CUT_OFF = (ssl.SSLEOFError, ssl.SSLZeroReturnError, ssl.SSLSyscallError)
"""What TLS says when the other side is gone."""

HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
ITERATIONS_MIN = 4_096
ITERATIONS_MAX = 10_000_000
"""Beyond that the computation would take longer than anybody waits."""
NO_CHANNEL_BINDING = "n,,"


class Unreachable(ExternalError):
    """A broker cannot be reached, or a connection broke: whether a request was carried out is not known."""


class TimedOut(Unreachable):
    """As that: nothing came before the deadline."""


class Deadline:
    """A moment after which nobody waits."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._end = time.monotonic() + seconds

    def remaining(self) -> float:
        """Seconds that are left, never below 0."""
        return max(0.0, self._end - time.monotonic())

    def part(self, of: int) -> "Deadline":
        """A share of what is left: one of ``of`` equal parts."""
        return Deadline(self.remaining() / max(1, of))


def addresses(servers: str) -> tuple[tuple[str, int], ...]:
    """Read ``host:port,host:port``. Without a port it is 9092."""
    found = []
    for entry in servers.split(","):
        text = entry.strip().rpartition("://")[2]
        if not text:
            continue
        host, colon, port = text.rpartition(":")
        if not colon or text.endswith("]"):
            host, port = text, str(DEFAULT_PORT)
        host = host.removeprefix("[").removesuffix("]")
        if not host or not (port.isascii() and port.isdigit()) or not 0 < int(port) < 65536:
            raise InvalidOption(f"kafka: {entry.strip()!r} is not a valid server: give host:port")
        found.append((host, int(port)))
    if not found:
        raise InvalidOption("kafka: no server is given: give host:port,host:port")
    return tuple(found)


class Connection:
    """A connection that has logged in and knows what the broker understands."""

    def __init__(
        self, host: str, port: int, security: Security, context: ssl.SSLContext | None, deadline: Deadline
    ) -> None:
        """Connect. ``context``: what ``security.tls`` makes, if it has any."""
        self.address = f"{host}:{port}"
        self._security = security
        self._correlation = 0
        self._versions: dict[int, tuple[int, int]] = {}
        self._answered = False
        """Whether the broker has answered anything that needs no hint about its security."""
        self._socket = self._connect(host, port, deadline)
        try:
            if context is not None:
                self._socket = self._wrapped(context, host, deadline)
            code, self._versions = self._exchange(requests.api_versions(), deadline)
            check(code, f"to say what {self.address} understands")
            if security.sasl is not None:
                self._log_in(security.sasl, deadline)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the socket. A repeat does nothing."""
        self._socket.close()

    def call(self, call: Call[T], deadline: Deadline) -> T:
        """Ask, and wait for the answer."""
        lowest, highest = self._versions.get(call.api.key, (0, -1))
        if not lowest <= call.api.version <= highest:
            raise UserError(
                f"Kafka at {self.address} does not understand {call.api.name} version {call.api.version}: "
                "use a broker of Kafka 3.0 or newer"
            )
        answer = self._exchange(call, deadline)
        self._answered = True
        return answer

    def _exchange(self, call: Call[T], deadline: Deadline) -> T:
        try:
            return self._decoded(call, self._answer_to(call, deadline))
        except BaseException:  # also when interrupted: the next answer would be this one's
            self.close()
            raise

    def _answer_to(self, call: Call[T], deadline: Deadline) -> bytes:
        self._correlation = (self._correlation + 1) % 2**31
        api = call.api
        header = INT16.write(api.key) + INT16.write(api.version) + INT32.write(self._correlation)
        header += CLASSIC_STRING.write(CLIENT_ID) + (NO_TAGS if api.flexible else b"")
        request = header + api.request.write(call.values)
        try:
            self._socket.settimeout(max(deadline.remaining(), 0.001))
            self._socket.sendall(INT32.write(len(request)) + request)
            size = self._size(self._received(4, deadline))
            return self._received(size, deadline)
        except TimeoutError as error:
            hint = "" if self._answered else ": is it a broker's port, and is security.protocol right?"
            raise TimedOut(
                f"Kafka at {self.address} did not answer {call.api.name} within {deadline.seconds:.3g} s{hint}"
            ) from error
        except OSError as error:
            # With TLS 1.3 a server looks at the client's certificate after the handshake, and answers with an alert.
            if isinstance(error, ssl.SSLError) and not isinstance(error, CUT_OFF) and not self._answered:
                raise UserError(
                    f"Kafka at {self.address} refused the TLS connection: {error.reason or 'no reason given'}: "
                    "check ssl.certificate.location and ssl.key.location"
                ) from error
            raise self._closed(error.strerror or str(error)) from error

    def _decoded(self, call: Call[T], answer: bytes) -> T:
        try:
            reader = Reader(answer)
            reader.expect(INT32, self._correlation)
            if call.api.flexible:
                read_tags(reader)
            decoded = call.api.answer.read(reader)
            reader.end()
        except Malformed as error:
            raise UserError(
                f"{self.address} did not answer {call.api.name} as Kafka does ({error}): give the port of a broker"
            ) from error
        return call.made(*decoded)

    def _size(self, prefix: bytes) -> int:
        if prefix == b"HTTP":
            raise UserError(f"{self.address} is an HTTP server: give the port of a Kafka broker")
        if prefix[:2] in TLS_RECORDS:
            raise UserError(f"{self.address} expects TLS: set security.protocol to SSL or SASL_SSL")
        size = int.from_bytes(prefix, "big", signed=True)
        if not 4 <= size <= ANSWER_MAX:
            raise UserError(f"{self.address} did not answer as Kafka does: give the port of a broker")
        return size

    def _received(self, size: int, deadline: Deadline) -> bytes:
        parts = bytearray()
        while len(parts) < size:
            remaining = deadline.remaining()
            if remaining == 0:
                raise TimeoutError
            self._socket.settimeout(remaining)
            part = self._socket.recv(min(size - len(parts), 1 << 20))
            if not part:
                raise self._closed("no more data")
            parts += part
        return bytes(parts)

    def _closed(self, reason: str) -> Unreachable:
        hint = "" if self._answered else f": is security.protocol {self._security.protocol} right for this port?"
        return Unreachable(f"Kafka at {self.address} closed the connection ({reason}){hint}")

    def _connect(self, host: str, port: int, deadline: Deadline) -> socket.socket:
        try:
            found = socket.create_connection((host, port), timeout=max(deadline.remaining(), 0.001))
        except TimeoutError as error:
            raise TimedOut(f"Kafka at {self.address} cannot be reached within {deadline.seconds:g} s") from error
        except (OSError, UnicodeError) as error:  # a name can be such that nobody can even be asked for it
            reason = getattr(error, "strerror", None) or error
            raise Unreachable(f"Kafka at {self.address} cannot be reached: {reason}") from error
        found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return found

    def _wrapped(self, context: ssl.SSLContext, host: str, deadline: Deadline) -> ssl.SSLSocket:
        self._socket.settimeout(max(deadline.remaining(), 0.001))
        try:
            return context.wrap_socket(self._socket, server_hostname=host)
        except ssl.SSLCertVerificationError as error:
            raise UserError(
                f"Kafka at {self.address} shows a certificate that is not trusted: {error.verify_message}: "
                "check ssl.ca.location and the name of the server"
            ) from error
        except TimeoutError as error:
            raise TimedOut(
                f"Kafka at {self.address} did not finish the TLS handshake within {deadline.seconds:g} s: "
                "is it a port with TLS?"
            ) from error
        except (*CUT_OFF, ConnectionError) as error:
            raise self._closed("in the TLS handshake") from error
        except ssl.SSLError as error:
            raise UserError(
                f"Kafka at {self.address} cannot agree on TLS: {error.reason or 'no reason given'}: "
                "check security.protocol and the ssl options"
            ) from error
        except OSError as error:
            raise self._closed(error.strerror or str(error)) from error

    def _log_in(self, sasl: Sasl, deadline: Deadline) -> None:
        code, offered = self._exchange(requests.sasl_handshake(sasl.mechanism), deadline)
        if code == UNSUPPORTED_SASL_MECHANISM:
            raise UserError(
                f"Kafka at {self.address} does not take {sasl.mechanism}: "
                f"set sasl.mechanism to one of {', '.join(sorted(offered)) or 'its own'}"
            )
        if code != 0:
            raise UserError(f"Kafka at {self.address} takes no login: {name_of(code)}: check security.protocol")
        if sasl.mechanism == "PLAIN":
            self._authenticate(sasl, f"\0{sasl.username}\0{sasl.password}".encode(), deadline)
            return
        scram = Scram(sasl.mechanism, sasl.username, sasl.password)
        try:
            proof = scram.final(self._authenticate(sasl, scram.first(), deadline))
            scram.verify(self._authenticate(sasl, proof, deadline))
        except ScramFailure as error:
            raise UserError(f"Kafka at {self.address}: the login of {sasl.username} failed: {error}") from error

    def _authenticate(self, sasl: Sasl, message: bytes, deadline: Deadline) -> bytes:
        code, reason, answer = self._exchange(requests.sasl_authenticate(message), deadline)
        if code != 0:
            raise UserError(
                f"Kafka at {self.address} refused the login of {sasl.username} ({reason or name_of(code)}): "
                "check sasl.username and sasl.password"
            )
        return answer


class ScramFailure(ValueError):
    """The exchange cannot go on."""


class Scram:
    """One exchange: ``first``, then ``final`` with the server's first answer, then ``verify`` with its second."""

    def __init__(self, mechanism: str, username: str, password: str, nonce: str | None = None) -> None:
        """``nonce``: only tests give one."""
        self._hash = HASHES[mechanism]
        self._password = password.encode()
        self._nonce = nonce or secrets.token_urlsafe(24)
        self._first_bare = f"n={username.replace('=', '=3D').replace(',', '=2C')},r={self._nonce}"
        self._server_signature: bytes | None = None

    def first(self) -> bytes:
        """Who logs in."""
        return f"{NO_CHANNEL_BINDING}{self._first_bare}".encode()

    def final(self, server_first: bytes) -> bytes:
        """The proof of the password."""
        text = _text(server_first)
        fields = _fields(text)
        nonce, salt, iterations = fields.get("r", ""), _decoded(fields.get("s", "")), fields.get("i", "")
        if not nonce.startswith(self._nonce) or nonce == self._nonce:
            raise ScramFailure("the server's nonce does not continue ours")
        if not (iterations.isascii() and iterations.isdigit() and len(iterations) <= 8):
            raise ScramFailure("the server names no number of iterations")
        if not ITERATIONS_MIN <= int(iterations) <= ITERATIONS_MAX:
            raise ScramFailure(f"the server wants {iterations} iterations")
        without_proof = f"c={_encoded(NO_CHANNEL_BINDING.encode())},r={nonce}"
        message = f"{self._first_bare},{text},{without_proof}".encode()
        salted = hashlib.pbkdf2_hmac(self._hash, self._password, salt, int(iterations))
        client_key = self._hmac(salted, b"Client Key")
        signature = self._hmac(hashlib.new(self._hash, client_key).digest(), message)
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        self._server_signature = self._hmac(self._hmac(salted, b"Server Key"), message)
        return f"{without_proof},p={_encoded(proof)}".encode()

    def verify(self, server_final: bytes) -> None:
        """See that the server knows the password too."""
        fields = _fields(_text(server_final))
        if "e" in fields:
            raise ScramFailure(fields["e"])
        signature = _decoded(fields.get("v", ""))
        if self._server_signature is None or not hmac.compare_digest(signature, self._server_signature):
            raise ScramFailure("the server did not prove that it knows the password")

    def _hmac(self, key: bytes, message: bytes) -> bytes:
        return hmac.digest(key, message, self._hash)


def _fields(text: str) -> dict[str, str]:
    return {part[0]: part[2:] for part in text.split(",") if part[1:2] == "="}


def _text(message: bytes) -> str:
    try:
        return message.decode()
    except UnicodeDecodeError as error:
        raise ScramFailure("the server's message is not text") from error


def _encoded(value: bytes) -> str:
    return base64.b64encode(value).decode()


def _decoded(value: str) -> bytes:
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError) as error:
        raise ScramFailure("the server's message is not base64") from error
