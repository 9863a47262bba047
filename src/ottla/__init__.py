"""Ottla: Kafka consumer groups that you can run, see and replay, in Python.

This module loads nothing heavy: import `ottla.broker`, `ottla.spark` and the rest where you use them.
"""

__version__ = "0.1.0"
