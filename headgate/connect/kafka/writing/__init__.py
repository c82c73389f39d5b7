"""Kafka out: ``sink``, in two phases (``twophase``, with ``executor``) or by a write-ahead log (``staged``).

One rule: whatever is committed carries a marker with it, so that a repeat can tell whether it was committed before.
"""
