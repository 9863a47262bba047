"""Group events to rebalances: what happened, why, and whether somebody meant it to. Pure: events in, values out."""
