"""SCRAM, the way to prove a password without sending it (RFC 5802 and RFC 7677).

One rule: the server proves itself too; without its proof nobody is logged in.

A password is taken as UTF-8, as Kafka's own clients do, without the normalisation that the RFC has.
"""

import base64
import binascii
import hashlib
import hmac
import secrets

HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
ITERATIONS_MIN = 4_096
ITERATIONS_MAX = 10_000_000
"""Beyond that the computation would take longer than anybody waits."""
NO_CHANNEL_BINDING = "n,,"


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
