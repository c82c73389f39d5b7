"""What the JVMs of tests are started with. None lives long: a simple compiler and collector halve what a start costs.

Most of the rest is the loading of the same ten thousand classes. ``tests.classes`` keeps them in an archive that a JVM
maps. One rule: the archive only saves time. A JVM that has another class path, or other jars, does without it.
"""

from pathlib import Path

ARCHIVE = Path(__file__).parent.parent / "build" / "classes.jsa"
QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
QUIET = "-Xlog:disable -Xlog:all=error:stderr"
"""A JVM says on stdout why it does without an archive."""


def options() -> str:
    """The options, for ``SPARK_SUBMIT_OPTS``."""
    return f"{QUICK} {QUIET} -XX:SharedArchiveFile={ARCHIVE}" if ARCHIVE.exists() else QUICK
