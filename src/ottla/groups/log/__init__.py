"""The records of the offsets topic: schemas, encoding, the state that they replay to, bulk loading."""
