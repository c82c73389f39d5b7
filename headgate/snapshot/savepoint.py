"""Savepoints: checkpoints that stand on their own.

One rule: everything a savepoint needs is in its directory, named by paths that begin there, and its manifest is written
last. So it can be moved, copied and kept anywhere, and a directory with a manifest is whole.
"""

import json
import zlib
from collections.abc import Mapping
from typing import Any, Protocol

from headgate.core.records import CompletedCheckpoint
