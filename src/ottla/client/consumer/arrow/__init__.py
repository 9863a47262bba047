"""Fetched records by the compiled decoder. It needs the extra `arrow`; `decoding` loads it where that is installed."""

from ottla.extras import require

require("arrow")
