"""The offsets topic by compiled code (the extra `arrow`): records to Arrow columns, and the bulk loading of a coordinator."""

from ottla.extras import require

require("arrow")
