"""`ottla produce`: writes lines as records, through confluent-kafka."""
