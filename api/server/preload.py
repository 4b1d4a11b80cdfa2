"""Preload of the process from which workers are forked: imports that they share.

Imported only in that process, which has a single thread.
"""

import gc
import signal

import api.app
import api.server.worker  # noqa: F401 - for the workers

# The supervisor forwards signals; without this process the end of its workers goes unnoticed.
signal.signal(signal.SIGTERM, signal.SIG_IGN)
gc.collect()
gc.freeze()  # a collection would write to, and so copy, shared memory
