"""The compiled backend of a coordinator's loading: a log reduced to the latest commit of each key."""

from ottla.extras import require

require("arrow")
