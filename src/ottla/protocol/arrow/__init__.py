"""Record batches to Arrow columns by compiled code (the extra `arrow`)."""

from ottla.extras import require

require("arrow")
