"""Readings to alerts, with keyed state and timers."""
