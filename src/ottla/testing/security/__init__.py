"""Certificates, tokens and clients' settings for tests of TLS and SASL; needs the extra `security`."""

from ottla.extras import require

require("security")
