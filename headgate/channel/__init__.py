"""Durable channels between tasks.

One rule: what stands in a channel's log was committed by its writer, and is read by its reader in the order of the
writer's batches, no further than the gate is open.

``segments``  what one upstream batch wrote: Parquet files, and the log that says which of them count
``gates``     how far each reader may go, told to it the moment that changes
``reader``    the streaming data source through which a downstream query reads segments as Arrow batches

Not here: deciding how far a gate opens (``headgate.core.alignment``) and when a segment may be deleted
(``headgate.core.retention``).
"""
