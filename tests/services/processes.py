"""Looking for what was left running."""

from pathlib import Path


def processes_that_know(directory: Path) -> list[str]:
    """The commands of what runs with the directory in its command or its environment."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        try:
            command, environment = (entry / "cmdline").read_bytes(), (entry / "environ").read_bytes()
        except OSError:
            continue  # It has ended, or is somebody else's.
        if str(directory).encode() in command + environment:
            found.append(command.replace(b"\0", b" ").decode(errors="replace"))
    return found
