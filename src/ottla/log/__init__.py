"""One partition on the disk: segments, indexes, recovery, producers."""
