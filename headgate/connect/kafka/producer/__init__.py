"""librdkafka, as far as a sink needs it: ``native`` calls it, ``transaction`` is what sinks use.

One rule: rows stay in Arrow until librdkafka copies them, and a transaction is left open for whoever ends it.
"""
