"""Who else on the machine may look at what Headgate keeps.

One rule: a directory that Headgate makes for data of its own is for its owner alone, unless the job says otherwise
(``Checkpointing(access="umask")``); a directory that is there keeps the permissions that it has.

What lies in such a directory is reached through it and in no other way. So files that readers get by a rename or a
hard link keep the permissions of the umask, and nobody sees them before that.
"""

from pathlib import Path

OWNER_ONLY = 0o700
MODES = {"owner": OWNER_ONLY, "umask": 0o777}
"""What a user says, and the mode with which directories are made. The umask takes from it as everywhere."""


def make_directory(path: Path, mode: int) -> None:
    """Make a directory with this mode if it is not there. Those above it are made as the umask says."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.mkdir(mode, exist_ok=True)
