"""A job whose Spark can be stopped under it: by a file that appears, from inside Spark's own process."""

import json
import os
import threading
import time
from pathlib import Path

from pyspark import SparkContext

from tests.spark import shapes

SHAPE = json.loads(os.environ["HEADGATE_MORTAL"])
job = shapes.build(**SHAPE)


def stop_when_told() -> None:
    while not Path(SHAPE["directory"], "stop").exists():
        time.sleep(0.05)
    SparkContext._active_spark_context._jsc.sc().stop()  # type: ignore[union-attr]


threading.Thread(target=stop_when_told, daemon=True).start()
