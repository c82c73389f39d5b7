"""The sampler of JVMs, from Maven Central. It is attached to a process that runs, so nothing is started otherwise."""

import platform
import shutil
import zipfile
from pathlib import Path

from bench.peers.installing import BUILD, MissingPeer, is_installed, mark_installed, run

SAMPLER = ("tools.profiler", "async-profiler", "4.5")
_PLATFORMS = {"x86_64": "linux-x64", "aarch64": "linux-arm64"}
_COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy"


def install() -> Path:
    """Fetch it if it is missing, and return its library."""
    home = BUILD / "profiler"
    library = home / "libasyncProfiler.so"
    recipe = ":".join(SAMPLER)
    if is_installed(home, recipe):
        return library
    if shutil.which("jcmd") is None:
        raise MissingPeer("bench: a profile needs jcmd: install a JDK (on Debian openjdk-17-jdk-headless)")
    home.mkdir(parents=True, exist_ok=True)
    run("fetch the profiler by Maven", ["mvn", "-q", "-B", _COPY, f"-Dartifact={recipe}", f"-DoutputDirectory={home}"])
    inside = f"{_PLATFORMS.get(platform.machine(), platform.machine())}/{library.name}"
    with zipfile.ZipFile(home / f"{SAMPLER[1]}-{SAMPLER[2]}.jar") as jar:
        if inside not in jar.namelist():
            raise MissingPeer(f"bench: the profiler has no {inside}: profiles are for Linux on x86-64 and ARM")
        library.write_bytes(jar.read(inside))
    mark_installed(home, recipe)
    return library
