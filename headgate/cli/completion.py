"""What the shell completes: names of jobs, and what may stand where a job does.

One rule: a key that is pressed costs nothing. Only a storage on this machine is looked at, only its directories are
listed, and whatever is wrong completes to nothing.
"""

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from headgate.errors import HeadgateError
from headgate.store.api import open_store
from headgate.store.jobstore import jobs

STORAGE_VARIABLE = "HEADGATE_STORAGE"
SHOWN_MAX = 200
VERBS = ("list", "hold", "release", "label", "delete")


def job_names(ctx: Any, incomplete: str) -> list[str]:
    """Jobs of the storage that is meant, and Python files."""
    return [*_jobs(ctx.params.get("storage"), incomplete), *job_files(incomplete)]


def savepoint_words(ctx: Any, incomplete: str) -> list[str]:
    """The same for `savepoint`, where a word may say what to do first."""
    given = ctx.params.get("words") or ()
    verbs = [] if given else [verb for verb in VERBS if verb.startswith(incomplete)]
    if not given or (len(given) == 1 and given[0] in VERBS):
        return [*verbs, *job_names(ctx, incomplete)]
    return []


def job_files(incomplete: str) -> list[str]:
    """Python files, and directories in which there may be some."""
    folder, _, begun = incomplete.rpartition("/")
    where = Path(f"{folder}/" if folder or incomplete.startswith("/") else ".")
    found = []
    with suppress(OSError):
        for each in sorted(where.iterdir())[:SHOWN_MAX]:
            if not each.name.startswith(begun) or (each.name.startswith(".") and not begun):
                continue
            shown = f"{incomplete.removesuffix(begun)}{each.name}" if begun else f"{incomplete}{each.name}"
            if each.is_dir():
                found.append(f"{shown}/")
            elif each.suffix == ".py":
                found.append(shown)
    return found


def _jobs(storage: str | None, incomplete: str) -> list[str]:
    uri = storage or os.environ.get(STORAGE_VARIABLE)
    if not uri or ("://" in uri and not uri.startswith("file:")):
        return []
    with suppress(HeadgateError, OSError):
        return [name for name in jobs(open_store(uri)) if name.startswith(incomplete)][:SHOWN_MAX]
    return []
