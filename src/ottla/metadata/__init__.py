"""KRaft record types and their replay: topics, partitions, settings, and blocks of producer ids."""
