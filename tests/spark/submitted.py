"""``headgate run`` as an application of ``spark-submit``: says in files what it prints, and with what it ends."""

import sys
from pathlib import Path

from headgate.cli import main

directory, *arguments = sys.argv[1:]
sys.argv = ["headgate", *arguments]
sys.stdout = (Path(directory) / "out.txt").open("w", buffering=1)
sys.stderr = (Path(directory) / "err.txt").open("w", buffering=1)
code: object = "no exit"
try:
    main()
except SystemExit as exit:  # noqa: A001 - what it is
    code = exit.code
finally:
    (Path(directory) / "code.tmp").write_text(str(code))
    (Path(directory) / "code.tmp").rename(Path(directory) / "code")
