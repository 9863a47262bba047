"""What tests of applications use: brokers whose methods produce, consume and wait for groups."""
