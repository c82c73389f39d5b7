"""The public names of the package. Changing this list needs a line in the changelog."""

from pathlib import Path

import headgate


def test_the_public_names_are_these_and_no_others() -> None:
    assert headgate.__all__ == ["__version__"]


def test_the_package_ships_its_types() -> None:
    assert (Path(headgate.__file__).parent / "py.typed").is_file()
