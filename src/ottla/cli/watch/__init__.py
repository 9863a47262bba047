"""`ottla watch`: stores the offsets topic and looks at the admin API, before compaction removes what explains a rebalance."""
