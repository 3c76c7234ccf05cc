"""Name who acts: the person or the job behind a command.

What starts, corrects, parks, approves or closes something is kept with the name of
whoever did it. pgbill has no logins of its own: the operating system knows who that is.
"""

import getpass
import socket


def who() -> str:
    """Name the person or job that acts: login and host."""
    try:
        login = getpass.getuser()
    except (KeyError, OSError):
        login = "unknown"
    return f"{login}@{socket.gethostname()}"
