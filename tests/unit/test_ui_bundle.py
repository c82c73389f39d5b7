"""The web UI that is committed: built from the sources that are there, small, and complete without the network."""

import gzip
import json
import re
from hashlib import sha256
from pathlib import Path

from scripts.ui_contract import PLACE, contract

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "ui"
BUNDLE = ROOT / "headgate" / "serve" / "ui"
MANIFEST = json.loads((BUNDLE / "manifest.json").read_text(encoding="utf-8"))
MOST_BYTES = 250 * 1000
TELL = "run `make ui`, and commit what it writes"


def hash_of_sources() -> str:
    """As ui/build.mjs has it."""
    single = [SOURCES / name for name in ("build.mjs", "package-lock.json", "package.json", "tsconfig.json")]
    files = [*single, *(path for path in (SOURCES / "src").rglob("*") if path.is_file())]
    named = sorted((path.relative_to(SOURCES).as_posix(), path) for path in files)
    text = "".join(f"{name}\n{sha256(path.read_bytes()).hexdigest()}\n" for name, path in named)
    return sha256(text.encode()).hexdigest()


def test_what_is_committed_was_built_from_these_sources() -> None:
    assert MANIFEST["sources"] == hash_of_sources(), TELL


def test_nobody_has_changed_what_was_built() -> None:
    built = {
        path.name: sha256(path.read_bytes()).hexdigest() for path in BUNDLE.iterdir() if path.name != "manifest.json"
    }
    assert built == MANIFEST["files"], TELL


def test_the_types_of_the_pages_are_those_of_the_api() -> None:
    assert PLACE.read_text(encoding="utf-8") == contract(), TELL


def test_all_of_it_is_small() -> None:
    sizes = {path.name: len(gzip.compress(path.read_bytes())) for path in BUNDLE.iterdir()}
    assert sum(sizes.values()) < MOST_BYTES, sizes


def test_nothing_comes_from_elsewhere() -> None:
    page = (BUNDLE / "index.html").read_text(encoding="utf-8")
    assert "default-src 'none'" in page
    named = re.findall(r'(?:src|href)="([^"]+)"', page)
    assert len(named) == 4
    assert {name.partition("?")[0] for name in named} <= {path.name for path in BUNDLE.iterdir()}
    assert not re.search(r"<script(?![^>]*\bsrc=)|style=", page)
    assert "@import" not in (style := (BUNDLE / "app.css").read_text(encoding="utf-8"))
    assert "url(" not in style


def test_the_lock_file_pins_every_package_with_a_hash_and_no_address() -> None:
    packages = json.loads((SOURCES / "package-lock.json").read_text(encoding="utf-8"))["packages"]
    own = packages.pop("")
    assert all("integrity" in package and "resolved" not in package for package in packages.values())
    assert all(
        re.fullmatch(r"[\d.]+", version)
        for group in ("dependencies", "devDependencies")
        for version in own[group].values()
    )


def test_licences_go_with_what_is_shipped() -> None:
    text = (BUNDLE / "licenses.txt").read_text(encoding="utf-8")
    for name, version in json.loads((SOURCES / "package.json").read_text(encoding="utf-8"))["dependencies"].items():
        assert f"{name} {version}" in text
