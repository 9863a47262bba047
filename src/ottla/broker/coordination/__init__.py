"""The group coordinators as shells: append, replay, reply; loading; events."""
