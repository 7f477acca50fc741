"""Checks whether the machine is quiet enough for measurements.

The load average includes this program, so read it before any measurement.
"""

import os
import time

# If the load average per processor is above this value, other programs affect the figures.
LOAD_PER_PROCESSOR_MAX = 0.25
POLL_SECONDS = 5


def processors():
    return len(os.sched_getaffinity(0))


def load_average():
    """Returns the number of running and waiting threads, averaged over a minute."""
    return round(os.getloadavg()[0], 2)


def is_quiet(load, processor_count):
    return load <= LOAD_PER_PROCESSOR_MAX * processor_count


def wait_until_quiet(seconds_max):
    """Waits until the load average is low, for example after a build. Returns the load average, or None if it remained
    too high."""
    until = time.monotonic() + seconds_max
    while True:
        load = load_average()
        if is_quiet(load, processors()):
            return load
        if time.monotonic() >= until:
            return None
        time.sleep(POLL_SECONDS)
