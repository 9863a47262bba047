"""Consumer groups (KIP-848): the coordinator computes the assignment, and members reconcile with it one by one."""
