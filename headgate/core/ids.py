"""Names of things. An id is a type of its own, never a bare ``int`` or ``str`` across a module's edge."""

from typing import NewType

TaskId = NewType("TaskId", str)
ChannelId = NewType("ChannelId", str)
SinkId = NewType("SinkId", str)
OperatorUid = NewType("OperatorUid", str)
LeaderId = NewType("LeaderId", str)
"""One process that may lead. Drawn outside, never used twice."""
RequestId = NewType("RequestId", str)
"""One thing a user asked for, so that the answer finds its way back."""

CheckpointId = NewType("CheckpointId", int)
"""The number of a checkpoint, and of its record in the checkpoint log. Never used twice in one storage."""
Generation = NewType("Generation", int)
"""The whole job from one restore to the next. Opened by an epoch record in the checkpoint log."""
Run = NewType("Run", int)
"""One start of one task's query inside a generation. A batch that is replayed is replayed by a later run."""
Batch = NewType("Batch", int)
"""The number of a micro-batch. On a channel, also a position: everything up to and with that upstream batch."""

NO_BATCH = Batch(-1)
"""Before the first batch: nothing committed, nothing consumed."""
NO_RUN = Run(0)
NO_LEADER = LeaderId("")
NO_GENERATION = Generation(0)
NO_CHECKPOINT = CheckpointId(-1)
