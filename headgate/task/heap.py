"""The heap of Spark's process and its garbage collector, where a whole job runs in that process.

One rule: what anybody says of either holds, in a job, in Spark's file of defaults or in the environment. Where nobody
does, Spark takes a gigabyte however much there is, and Java the collector that stops for the shortest time; batches are
done sooner with a part of the memory that is there, and the collector that gets the most done.
"""

import os
import re
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from headgate import machine

HEAP = "spark.driver.memory"
COLLECTOR = "spark.driver.defaultJavaOptions"
PARALLEL = "-XX:+UseParallelGC"
SPARKS_OWN = 1 << 30
PART, MOST = 4, 4 << 30
"""A heap is this part of the memory, as Java's own default is, and at most so large."""
_OPTIONS = (COLLECTOR, "spark.driver.extraJavaOptions")
_VARIABLES = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS", "SPARK_SUBMIT_OPTS", "PYSPARK_SUBMIT_ARGS")
_HEAP_VARIABLES = ("SPARK_DRIVER_MEMORY", "SPARK_MEM")
_HEAP_SAID = re.compile(r"-Xmx|MaxHeapSize|MaxRAM|driver[-.]memory")
_COLLECTOR_SAID = re.compile(r"GC|G1|driver-java-options")
_LINE = re.compile(r"\s*([^\s#!=:][^\s=:]*)\s*[\s=:]\s*(.*?)\s*$")


def unsaid(
    conf: Mapping[str, str], defaults: Mapping[str, str], environment: Mapping[str, str], memory: int | None
) -> dict[str, str]:
    """The settings of what nobody has said. ``defaults`` are those of Spark's file, ``memory`` the bytes there are."""
    said = " ".join(
        [
            *(settings.get(key, "") for settings in (conf, defaults) for key in _OPTIONS),
            *(environment.get(name, "") for name in _VARIABLES),
        ]
    )
    found: dict[str, str] = {}
    named = HEAP in conf or HEAP in defaults or any(environment.get(name) for name in _HEAP_VARIABLES)
    bytes_ = 0 if memory is None else min(memory // PART, MOST)
    if not named and not _HEAP_SAID.search(said) and bytes_ > SPARKS_OWN:
        found[HEAP] = f"{bytes_ >> 20}m"
    if COLLECTOR not in conf and COLLECTOR not in defaults and not _COLLECTOR_SAID.search(said):
        found[COLLECTOR] = PARALLEL
    return found


def in_one_process(master: str) -> bool:
    """Whether Spark's driver process is also its only executor."""
    return master == "local" or master.startswith("local[")


def here(conf: Mapping[str, str]) -> dict[str, str]:
    """The same on this machine. PySpark is looked for, and not imported: the doctor asks, too, if it is broken."""
    pyspark = find_spec("pyspark")
    home = os.environ.get("SPARK_HOME") or (Path(pyspark.origin).parent if pyspark and pyspark.origin else "")
    directory = Path(os.environ.get("SPARK_CONF_DIR") or Path(home, "conf"))
    return unsaid(conf, read_defaults(directory / "spark-defaults.conf"), os.environ, machine.memory()[0])


def read_defaults(path: Path) -> dict[str, str]:
    """What Spark's file of defaults says. Nothing, if there is none."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return {}
    told = (_LINE.match(line) for line in lines)
    return {each[1]: each[2] for each in told if each is not None}
