"""Files of a data directory, ours or Apache Kafka's, as lines of a report: what `ottla dump-log` prints.

Everything here only looks: nothing is made, repaired or opened for writing, and a broker may be at work on the files.
"""
