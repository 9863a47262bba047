"""Membership of a consumer in a group, by the classic protocol: joining, leading, heartbeats, leaving."""
