"""Read a clock that runs while the machine sleeps.

A worker must not believe in a lease that expired while its laptop, or its virtual
machine, was suspended: the monotonic clock of Linux stands still then, the boot-time
clock does not. It measures how old a promise is, never what time it is; the time of day
is the database's alone.
"""

import time

_CLOCK: int = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def seconds() -> float:
    """Return seconds since some moment in the past; only differences mean anything."""
    return time.clock_gettime(_CLOCK)
