"""The console, as a sink.

One rule: a batch is printed when it is written, to show at once what a job does.
"""

from headgate.sink.console import sink

__all__ = ["sink"]
