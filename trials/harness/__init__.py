"""What the trials share: how they are run and what they say, brokers and processes, actions at random times, ledgers, and oracles."""
