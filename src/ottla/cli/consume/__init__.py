"""`ottla consume`: prints the records of topics, as a member of a group or from partitions that are given."""
