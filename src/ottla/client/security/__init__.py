"""TLS and SASL of a client."""
