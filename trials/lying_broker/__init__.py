"""A broker that answers wrongly in a hundred ways, and what consumers and Spark's source make of it."""
