"""Servers that are reached by HTTP, and sinks that write to them.

One rule: a row has a key of its own, so every request may be sent again; and it is, until it is done or a deadline is
over. ``endpoint`` is where servers are, ``client`` asks them, ``writer`` sends rows, ``sink`` has what sinks share.
"""
