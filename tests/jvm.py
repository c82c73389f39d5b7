"""What the JVMs of tests are started with. None lives long: a simple compiler and collector halve what a start costs.

Most of the rest is the loading of the same ten thousand classes. ``tests.classes`` keeps them in archives that a JVM
maps: one for drivers, one for drivers of jobs that read Kafka, and one for executors, as their class paths differ. One
rule: an archive only saves time. A JVM that has another class path, or other jars, does without it.
"""

from pathlib import Path

DRIVER = Path(__file__).parent.parent / "build" / "driver.jsa"
KAFKA = DRIVER.with_name("kafka.jsa")
EXECUTOR = DRIVER.with_name("executor.jsa")
QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
STARTS = DRIVER.with_name("starts")
"""Where tests remember how Spark's process is started. No archive of a job's own is made there."""
QUIET = "-Xlog:disable -Xlog:all=error:stderr"
"""A JVM says on stdout why it does without an archive."""


def options(archive: Path = DRIVER) -> str:
    """The options, for ``SPARK_SUBMIT_OPTS`` or ``spark.executor.extraJavaOptions``."""
    return f"{QUICK} {QUIET} -XX:SharedArchiveFile={archive}" if archive.exists() else f"{QUICK} -Xshare:auto"
