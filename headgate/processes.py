"""Whether a process of this machine is there. One rule: it is asked of the system by a signal that does nothing."""

import os


def is_alive(pid: object) -> bool:
    """Whether there is a process of this number, whoever owns it. What is not a number of a process is none."""
    if not isinstance(pid, int) or pid <= 0:
        return False
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True
