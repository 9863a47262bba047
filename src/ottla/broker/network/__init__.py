"""Sockets to frames and back: the server, its connections, and the bounds on them."""
