"""Which Java Spark runs on. One rule: it is looked for where Spark looks for it, and it says its version itself."""

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

LEAST = 17
TIMEOUT_S = 60.0
HOME_VARIABLE = "JAVA_HOME"


@dataclass(frozen=True)
class FoundJava:
    """What Spark would start. ``wrong`` says why it cannot be, if it cannot."""

    program: str
    chosen_by: str
    """The variable of the environment that led there."""
    version: str | None = None
    wrong: str | None = None

    @property
    def is_supported(self) -> bool:
        """Whether it runs, and is new enough."""
        major = re.match(r"\d+", self.version or "")
        return self.wrong is None and major is not None and int(major[0]) >= LEAST


def find(timeout_s: float = TIMEOUT_S) -> FoundJava:
    """Ask the Java that Spark would start. No JVM is left behind."""
    home = os.environ.get(HOME_VARIABLE)
    program, chosen_by = (str(Path(home) / "bin" / "java"), HOME_VARIABLE) if home else ("java", "PATH")
    try:
        asked = subprocess.run(  # noqa: S603 - the user's own Java
            [program, "-version"], capture_output=True, text=True, errors="replace", timeout=timeout_s, check=False
        )
    except subprocess.TimeoutExpired:
        return FoundJava(program, chosen_by, wrong=f"it does not answer within {timeout_s:g} s")
    except OSError as error:
        return FoundJava(program, chosen_by, wrong=(error.strerror or str(error)).lower())
    told = re.search(r'version "([^"]+)', asked.stderr)
    if asked.returncode != 0:
        wrong: str | None = f"java -version ends with exit code {asked.returncode}"
    else:
        wrong = None if told is not None else "java -version names no version"
    return FoundJava(shutil.which(program) or program, chosen_by, told[1] if told is not None else None, wrong)
