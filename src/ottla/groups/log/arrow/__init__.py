"""Records of the offsets topic to Arrow, and how kernels read commits."""

from ottla.extras import require

require("arrow")
