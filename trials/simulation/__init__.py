"""A group coordinator in virtual time, from one seed."""
