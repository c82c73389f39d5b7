"""Taking connections, for as long as somebody listens.

One rule: only the end of listening ends it. A process that is out of descriptors, memory or threads takes the next
connection when there is room again: whoever asks waits for that long, and not for ever.
"""

import errno
import socket
import threading
import time
from collections.abc import Callable, Iterator

SHORT = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
"""Something is used up. What is asked for waits."""
PASSING = (*SHORT, errno.ECONNABORTED, errno.EPROTO, errno.EINTR, errno.EAGAIN)
WAIT_S = 0.05
WAIT_MAX_S = 1.0
TELL_AGAIN_S = 60.0


def accept(listening: socket.socket, warn: Callable[[str], None]) -> Iterator[socket.socket]:
    """Connections, until ``listening`` is closed. ``warn`` hears, now and then, that none can be taken."""
    wait_s, told_s = WAIT_S, -TELL_AGAIN_S
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
                time.sleep(wait_s)
                wait_s = min(2 * wait_s, WAIT_MAX_S)
            continue
        wait_s = WAIT_S
        yield connection


def start(thread: threading.Thread, connection: socket.socket) -> bool:
    """Start the thread of a connection. If there can be no further thread, the connection is closed: ask again."""
    try:
        thread.start()
    except RuntimeError:
        connection.close()
        return False
    return True
