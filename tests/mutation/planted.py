"""A program that runs the simulator with bugs in it: modules are changed while they are loaded, and no file is.

    planted.py ROOT PATCHES seeds FIRST END     prints what is wrong in the first world that breaks a promise
    planted.py ROOT PATCHES command ARGUMENT... is the command ``headgate``

``PATCHES`` (JSON) has pairs of old and new text for the paths of modules. It needs the standard library alone, so that
an interpreter without anything else, which starts fast, can run it.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

Patches = Mapping[str, Sequence[tuple[str, str]]]


class Planting(MetaPathFinder):
    """Finds the modules that are to be changed."""

    def __init__(self, patches: Patches) -> None:
        self._patches = patches

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        spec = PathFinder.find_spec(fullname, path, target) if fullname.startswith("headgate.") else None
        origin = None if spec is None else spec.origin
        if spec is None or origin is None or origin not in self._patches:
            return None
        spec.loader = Planted(fullname, origin, self._patches[origin])
        return spec


class Planted(SourceFileLoader):
    """Compiles a module with other text than its file has."""

    def __init__(self, fullname: str, path: str, patches: Sequence[tuple[str, str]]) -> None:
        super().__init__(fullname, path)
        self._patches = patches

    def get_code(self, fullname: str) -> CodeType:  # noqa: ARG002 - it has one module
        source = Path(self.path).read_text(encoding="utf-8")
        for old, new in self._patches:
            source = source.replace(old, new)
        code: CodeType = compile(source, self.path, "exec", dont_inherit=True)
        return code


def main(root: str, patches: str, what: str, *arguments: str) -> Any:
    sys.path.insert(0, root)
    sys.meta_path.insert(0, Planting(json.loads(patches)))
    if what == "command":
        from headgate.cli import main as command  # noqa: PLC0415 - with the bug in it

        sys.argv[1:] = arguments
        return command()
    from headgate.sim import runner  # noqa: PLC0415 - as above

    # Not the command, which would also shrink what it finds, and that takes as long as all the rest.
    summary = runner.run_seeds(range(*map(int, arguments)), 1, stop_at_first=True)
    print(json.dumps([verdict.violations[0] for verdict in summary.failing]))  # noqa: T201 - for the test
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
