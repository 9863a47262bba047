"""Checks and cleaning of record batches in machine code, with the results of `log.cleaner.backend` and `protocol.records.record_checks`."""

from ottla.extras import require

require("arrow")
