"""What it costs a busy job that somebody looks at its page: the job of ``etl``, with one browser open and with none."""

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any, ClassVar

from bench.case import Contender, Measured, Settings, WrongOutput, scratch
from bench.cases.etl import SCHEMA, Etl, compare
from bench.programs.orders import JOB
from bench.reading import json_rows
from bench.viewing import Viewer


class Watched(Etl):
    """On RocksDB, with defaults."""

    name: ClassVar[str] = "watched"
    title: ClassVar[str] = "Windows of orders while a browser shows the job, and while none does, RocksDB"
    backend: ClassVar[str] = "rocksdb"
    full: ClassVar[Settings] = {"rows": 20_000_000, "warm_up": 4_000_000}
    quick: ClassVar[Settings] = {"rows": 1_000_000, "warm_up": 100_000}
    also: ClassVar[dict[str, str]] = {**Etl.also, "events": "events heard", "answers": "questions answered"}

    def every(self) -> Sequence[Contender]:
        """The same job twice."""
        return [
            Contender("Headgate, nobody looks", "headgate", {"conf": {}, "looked_at": False}),
            Contender("Headgate, one browser", "headgate", {"conf": {}, "looked_at": True}),
        ]

    def _ask(self, contender: Contender, rows: int) -> Measured:
        looked_at = contender.settings["looked_at"]
        with scratch() as where:
            out = where / "out"
            out.mkdir()
            told: dict[str, Any] = {"backend": self.backend, "interval": "1s", "conf": contender.settings["conf"]}
            with Viewer(where / "storage", JOB) if looked_at else nullcontext() as viewer:
                answer, used = self._workers[contender.name].ask(
                    "etl", where=str(where), out=str(out), rows=rows, **told
                )
            compare(json_rows(out, SCHEMA), rows)
        values = {"rows_per_s": rows / answer["wall_s"], "cpu_us_per_row": used.cpu_s / rows * 1e6}
        if viewer is not None:
            if not viewer.events:
                raise WrongOutput("nobody heard anything of the job")
            values |= {"events": viewer.events, "answers": viewer.answers}
        return Measured(values, used)
