"""State of kept checkpoints, as the API gives it."""

import json

from headgate.browse.reader import KeptOperator, refuse_column
from headgate.serve import models
from tests.ui.world import Data, blank

USERS = ("ann", "bob", "cid", "dee", "eve")
OPERATORS = (
    KeptOperator("enriched", "enriched", 0, "symmetricHashJoin", 16, ("left", "right"), ("enriched",)),
    KeptOperator("user-windows", "user-windows", 0, "stateStoreSave", 16, ("all",), ("user-windows",)),
)


def kept_state(asked: dict[str, list[str]]) -> Data:
    told = [each.told() for each in OPERATORS]
    return blank(models.KeptState, checkpoint=int(asked["checkpoint"][0]), operators=told)


def state_rows(asked: dict[str, list[str]]) -> Data:
    rows = [row for row in wide() if fits(row["key"], asked)]
    return blank(models.StateRows, **about(asked), rows=rows[: int(asked["limit"][0])], more=False)


def state_difference(asked: dict[str, list[str]]) -> Data:
    rows = [row for row in wide() if fits(row["key"], asked)]
    kinds = ("added", "removed", "changed", "changed", "added")
    changes = [
        {
            "change": kind,
            "key": row["key"],
            "before": None if kind == "added" else {"sum": row["value"]["sum"] - 12.5},
            "after": None if kind == "removed" else row["value"],
        }
        for kind, row in zip(kinds, rows, strict=False)
    ]
    return blank(models.StateDifference, **about(asked), before=int(asked["before"][0]), changes=changes, more=True)


def about(asked: dict[str, list[str]]) -> Data:
    named = {name: asked[name][0] for name in ("operator", "state")}
    return {"checkpoint": int(asked["checkpoint"][0]), **named}


def wide() -> list[Data]:
    """Two windows for each user."""
    return [
        {
            "partition": number % 16,
            "key": {
                "user": user,
                "window": {"start": f"2026-11-19T04:{ten}0:00.000Z", "end": f"2026-11-19T04:{ten + 1}0:00.000Z"},
            },
            "value": {"sum": round(1250.25 * (number + 1) / (ten + 1), 2)},
        }
        for number, user in enumerate(USERS)
        for ten in (3, 4)
    ]


def fits(key: Data, asked: dict[str, list[str]]) -> bool:
    wanted = dict(one.split("=", 1) for one in asked.get("key", []))
    for name in wanted.keys() - {"user"}:
        raise KeyError(str(refuse_column(name, ["user", "window.start", "window.end"])))
    return all(json.loads(json.dumps(key)).get(name) == value for name, value in wanted.items())
