"""What tests and trials share: reference brokers, processes, scripted clients, doubles."""
