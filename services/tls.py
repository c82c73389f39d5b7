"""Certificates for a server on the loopback, made with openssl.

One rule: they are made once per directory, and every key stays in it.
"""

import subprocess
from pathlib import Path

from services.server import HOST, ServiceError


class Certificates:
    """An authority, and a certificate that it signed for the loopback. `make` makes both."""

    def __init__(self, directory: Path) -> None:
        self.authority = directory / "authority.crt"
        """What a client must trust."""
        self.certificate = directory / "server.crt"
        self.key = directory / "server.key"
        self.key_and_certificate = directory / "server.pem"
        """The server's key and certificate in one file."""
        self._directory = directory

    def make(self) -> None:
        """Make the files unless they are there."""
        if self.key_and_certificate.exists():
            return
        self._directory.mkdir(parents=True, exist_ok=True)
        authority_key = self._directory / "authority.key"
        request = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "30"]
        self._openssl(
            *request, "-subj", "/CN=services authority", "-keyout", str(authority_key), "-out", str(self.authority)
        )
        self._openssl(
            *request,
            *("-subj", "/CN=localhost", "-addext", f"subjectAltName=DNS:localhost,IP:{HOST}"),
            *("-addext", "basicConstraints=critical,CA:FALSE"),
            *("-CA", str(self.authority), "-CAkey", str(authority_key)),
            *("-keyout", str(self.key), "-out", str(self.certificate)),
        )
        # Written last: it says that all are there.
        self.key_and_certificate.write_bytes(self.key.read_bytes() + self.certificate.read_bytes())

    def _openssl(self, *arguments: str) -> None:
        done = subprocess.run(["openssl", *arguments], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise ServiceError(f"openssl cannot make a certificate: {done.stderr.strip().splitlines()[-1]}")
