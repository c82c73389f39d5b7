"""Data of servers that refuse to run as root, and therefore run as an account of their own.

One rule: the account owns its data, and can reach them although a parent of the wanted directory is closed to others.
"""

import atexit
import os
import shutil
import tempfile
from pathlib import Path


def home_for(account: str | None, directory: Path) -> Path:
    """A folder for the data of a server in `directory`, owned by the account. None means the user of this process.

    It is ``directory/home``. That is a link to a folder among the temporary files where the account cannot pass through
    all parents of the directory, as with the temporary folders of pytest. That folder goes when this process ends.
    """
    home = directory / "home"
    if home.exists():
        return home.resolve()
    if account is not None and not _passable(directory):
        outside = Path(tempfile.mkdtemp(prefix=f"{directory.name}-"))
        home.symlink_to(outside)
        atexit.register(_forget, home, outside)
    else:
        home.mkdir(mode=0o700)
    if account is not None:
        shutil.chown(home, account, account)
    return home.resolve()


def _forget(home: Path, outside: Path) -> None:
    home.unlink(missing_ok=True)
    shutil.rmtree(outside, ignore_errors=True)


def _passable(directory: Path) -> bool:
    """Whether everybody may pass through the directory and all its parents."""
    return all(os.stat(folder).st_mode & 0o001 for folder in (directory, *directory.parents))  # noqa: PTH116
