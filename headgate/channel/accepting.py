"""Taking connections, for as long as somebody listens.

One rule: only the end of listening ends it. A process that is out of descriptors, memory or threads takes the next
connection when there is room again: whoever asks waits for that long, and not for ever.
"""

import errno
import socket
import threading
import time
from collections.abc import Callable, Iterator

from headgate.retry import Retry, RetryPolicy

SHORT = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
"""Something is used up. What is asked for waits."""
PASSING = (*SHORT, errno.ECONNABORTED, errno.EPROTO, errno.EINTR, errno.EAGAIN)
WAITS = RetryPolicy(first_s=0.05, longest_s=1.0)
TELL_AGAIN_S = 60.0


def accept(listening: socket.socket, warn: Callable[[str], None]) -> Iterator[socket.socket]:
    """Connections, until ``listening`` is closed. ``warn`` hears, now and then, that none can be taken."""
    retry, told_s = Retry(WAITS), -TELL_AGAIN_S
    while True:
        try:
            connection, _ = listening.accept()
        except OSError as error:
            if error.errno not in PASSING:
                return
            if error.errno in SHORT:
                if time.monotonic() - told_s >= TELL_AGAIN_S:
                    told_s = time.monotonic()
                    warn(
                        f"this process can take no connection and tries again: {error.strerror}; "
                        "raise its limits (ulimit -n), or close what it has open"
                    )
                retry.again()
            continue
        retry = Retry(WAITS)
        yield connection


def start(thread: threading.Thread, connection: socket.socket) -> bool:
    """Start the thread of a connection. If there can be no further thread, the connection is closed: ask again."""
    try:
        thread.start()
    except RuntimeError:
        connection.close()
        return False
    return True
