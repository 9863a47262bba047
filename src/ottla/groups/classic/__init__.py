"""Classic groups: members, rebalances, and the handlers of JoinGroup, SyncGroup, Heartbeat, LeaveGroup and DescribeGroups."""
