"""Preload of the process that workers are forked from: what each of them imports, once, in memory that they share.

Imported in that process alone, which has a single thread.
"""

import gc
import signal

import api.app
import api.server.worker  # noqa: F401 - for the workers

# A signal to the whole group is the supervisor's to pass on: without this process its workers' end goes unheard.
signal.signal(signal.SIGTERM, signal.SIG_IGN)
gc.collect()
gc.freeze()  # a collection would write to every object, and so copy the memory that workers share
