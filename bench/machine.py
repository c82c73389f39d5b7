"""What measured: the machine, and the versions of everything that took part."""

import os
import platform
import re
import shutil
import subprocess
from importlib.metadata import version
from pathlib import Path

from bench.peers import flink

PACKAGES = ("pyspark", "pyarrow", "pandas", "numpy", "confluent-kafka")


def describe() -> dict[str, str | int]:
    """The machine, without its name."""
    cpu = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    memory = re.search(r"^MemTotal:\s*(\d+)", Path("/proc/meminfo").read_text(), re.MULTILINE)
    return {
        "cores": len(os.sched_getaffinity(0)),
        "processor": cpu[1].strip() if cpu else platform.machine(),
        "memory_gb": round(int(memory[1]) / 2**20) if memory else 0,
        "system": f"{platform.system()} {platform.release()}",
    }


def versions() -> dict[str, str]:
    """Everyone's."""
    found = {"Headgate": version("headgate"), "Python": platform.python_version(), "Java": _java()}
    found |= {name: version(name) for name in PACKAGES}
    return {**found, **flink.versions(flink.find())}


def _java() -> str:
    program = shutil.which("java")
    if program is None:
        return "none"
    done = subprocess.run([program, "-version"], capture_output=True, text=True, check=False)  # noqa: S603 - Java
    found = re.search(r'"([^"]+)"', done.stderr)
    return found[1] if found else "unknown"
