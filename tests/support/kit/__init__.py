"""Parts for tests: faulty files, a held executor, a cleaner, conditions to wait for, a coordinator's shell, the consumer protocol."""
