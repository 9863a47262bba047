"""Files of a data directory, ours or Apache Kafka's, as lines of a report: what `ottla dump-log` prints.

It only reads: no file is made, repaired or opened for writing, and a broker may be using the files.
"""
