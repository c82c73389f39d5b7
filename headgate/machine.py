"""What the machine has, or this process's control group: a container, or a service.

One rule: a bound that a control group sets counts like the machine's own. Nothing is judged here.
"""

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path

_PROC, _CGROUPS = Path("/proc"), Path("/sys/fs/cgroup")


def memory() -> tuple[int | None, str]:
    """How many bytes of memory there are, if that is known, and who has them."""
    try:
        machine: int | None = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        machine = None
    group = least(control_group("memory.max", "memory/memory.limit_in_bytes"))
    if group is not None and (machine is None or group < machine):
        return group, "this control group (a container or a service)"
    return machine, "this machine"


def control_group(name: str, of_old: str, proc: Path = _PROC, root: Path = _CGROUPS) -> list[list[str]]:
    """What the control groups of this process, from its own upwards, say of a bound: the words of each file.

    ``of_old`` is the controller and the name of the file where each controller has a tree of its own.
    """
    controller, _, old_name = of_old.partition("/")
    try:
        lines = (proc / "self" / "cgroup").read_text().splitlines()
    except OSError:
        return []
    found: list[list[str]] = []
    for line in lines:
        number, controllers, path = line.split(":", 2)
        if number == "0":
            top, file = root, name
        elif controller in controllers.split(","):
            top, file = root / controller, old_name
        else:
            continue
        group = top / path.lstrip("/")
        for each in (group, *(above for above in group.parents if above.is_relative_to(top))):
            with contextlib.suppress(OSError):
                found.append((each / file).read_text().split())
    return found


def least(found: Iterable[list[str]]) -> int | None:
    """The least bound. The word ``max`` is none, and so is a number that no machine reaches."""
    bounds = [int(words[0]) for words in found if words and words[0].isdigit()]
    return min((bound for bound in bounds if bound < 1 << 60), default=None)
