"""Write ui/src/lib/contract.ts: the types of the REST API as the web UI sees them.

One rule: they are made from headgate/serve/models.py and from nothing else, so a page cannot speak of a field that is
not in the contract. `make ui` runs this; a test sees that what is committed is what this writes.
"""

import inspect
import json
import sys
import types
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel

from headgate.serve import models

PLACE = Path(__file__).parents[1] / "ui" / "src" / "lib" / "contract.ts"
HEAD = "// Written by scripts/ui_contract.py from headgate/serve/models.py: do not edit.\n"
PLAIN = {int: "number", float: "number", str: "string", bool: "boolean", types.NoneType: "null", Any: "unknown"}


def contract() -> str:
    """All types of the contract, in the order of their names."""
    found = [
        kind
        for _, kind in sorted(inspect.getmembers(models, inspect.isclass))
        if issubclass(kind, BaseModel) and kind.__module__ == models.__name__
    ]
    return HEAD + "".join(
        f"\n{_interface(kind)}" for kind in found if kind not in {models.AnswerModel, models.AskModel}
    )


def _interface(kind: type[BaseModel]) -> str:
    kind.model_rebuild()
    inherited = {name for base in kind.__mro__[1:] if base is not BaseModel for name in _fields(base)}
    parents = [base.__name__ for base in kind.__bases__ if base not in {models.AnswerModel, models.AskModel}]
    asked = issubclass(kind, models.AskModel)
    lines = [
        f"  {_key(field.alias or name)}{'?' if asked and not field.is_required() else ''}: {_type(field.annotation)};\n"
        for name, field in kind.model_fields.items()
        if name not in inherited
    ]
    extends = f" extends {', '.join(parents)}" if parents else ""
    return f"export interface {kind.__name__}{extends} {{\n{''.join(lines)}}}\n"


def _fields(kind: type) -> dict[str, Any]:
    return getattr(kind, "model_fields", {})


def _key(name: str) -> str:
    return name if name.isidentifier() else json.dumps(name)


def _type(annotation: Any) -> str:
    if annotation in PLAIN:
        return PLAIN[annotation]
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return " | ".join(json.dumps(part) for part in parts)
    if origin in {Union, types.UnionType}:
        return " | ".join(_type(part) for part in parts)
    if origin is list:
        inner = _type(parts[0])
        return f"({inner})[]" if " " in inner else f"{inner}[]"
    if origin is dict:
        return f"Record<{_type(parts[0])}, {_type(parts[1])}>"
    if inspect.isclass(annotation) and issubclass(annotation, BaseModel):
        return annotation.__name__
    raise TypeError(f"{annotation} has no counterpart in TypeScript: say it in scripts/ui_contract.py")


if __name__ == "__main__":
    PLACE.parent.mkdir(parents=True, exist_ok=True)
    PLACE.write_text(contract(), encoding="utf-8")
    sys.stdout.write(f"{PLACE.name}: {len(PLACE.read_text().splitlines())} lines\n")
