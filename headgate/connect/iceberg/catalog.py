"""The catalog that knows where an Iceberg table is.

One rule: what a catalog is told may have secrets in it, and no message shows it.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from headgate.errors import ExternalError, HeadgateError, InvalidOption
from headgate.redact import redact

_SECRET = re.compile(r"password|secret|token|credential|key", re.IGNORECASE)


def client() -> Any:
    """The library that speaks with catalogs."""
    try:
        import pyiceberg.catalog  # noqa: PLC0415 - an extra: only who writes to Iceberg tables has it
    except ImportError as error:
        raise InvalidOption("iceberg needs pyiceberg: pip install 'headgate[iceberg]'") from error
    return pyiceberg


@dataclass
class Catalog:
    """A catalog, spoken with from the first question on."""

    name: str
    properties: Mapping[str, str] = field(default_factory=dict)
    _opened: Any = None

    @classmethod
    def of(cls, catalog: object, *, where: str) -> "Catalog":
        """What a user gave for it."""
        match catalog:
            case str() if catalog:
                return cls(catalog)
            case Mapping() if catalog:
                for name, value in catalog.items():
                    if not isinstance(name, str) or not isinstance(value, str):
                        raise InvalidOption(
                            f"{where}: a catalog's properties are texts, {name!r} is a {type(value).__name__}: quote it"
                        )
                return cls(catalog.get("name", "headgate"), dict(catalog))
            case _:
                pass
        raise InvalidOption(
            f"{where}: catalog takes a name, or properties like {{'type': 'rest', 'uri': ...}}; got "
            f"{type(catalog).__name__}"
        )

    def describe(self) -> str:
        """Its name and kind."""
        kind = self.properties.get("type", "")
        return f"catalog {self.name}" + (f" ({kind})" if kind else "")

    def close(self) -> None:
        """Let go of connections."""
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    @contextmanager
    def asked(self, what: str) -> Iterator[Any]:
        """The catalog, for questions whose failures are another system's. The errors that it names pass."""
        from pyiceberg import exceptions  # noqa: PLC0415 - an extra, as in ``client``

        known = (
            exceptions.NoSuchTableError,
            exceptions.TableAlreadyExistsError,
            exceptions.CommitFailedException,
            exceptions.ValidationError,
        )
        try:
            yield self._connected(what)
        except (HeadgateError, OSError, *known):
            raise
        except Exception as error:
            raise ExternalError(
                f"{what}: {self.describe()} answered with {self._without_secrets(error)}: see that it is there"
            ) from error

    def _connected(self, what: str) -> Any:
        if self._opened is None:
            given = {name: value for name, value in self.properties.items() if name != "name"}
            try:
                self._opened = client().catalog.load_catalog(self.name, **given)
            except (ValueError, ImportError, client().exceptions.NotInstalledError) as error:
                raise InvalidOption(
                    f"{what}: {self.describe()} cannot be used: {self._without_secrets(error)}: see its properties"
                ) from error
        return self._opened

    def _without_secrets(self, error: Exception) -> str:
        text = f"{type(error).__name__}: {error}".partition("\n")[0]
        for name, value in self.properties.items():
            if value and _SECRET.search(name):
                text = text.replace(value, "***")
        return redact(text)

    def __getstate__(self) -> dict[str, object]:
        """Connections stay behind."""
        return {**self.__dict__, "_opened": None}
