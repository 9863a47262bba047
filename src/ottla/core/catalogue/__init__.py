"""The cluster's own records and their replay: topics, their ids, partitions and settings, and blocks of producer ids."""
