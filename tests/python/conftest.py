"""Ctrl-C works in the tests and in what they start, also where a job in the background was given it ignored."""

import signal

signal.signal(signal.SIGINT, signal.default_int_handler)
