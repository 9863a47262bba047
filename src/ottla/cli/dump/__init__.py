"""What stands behind `ottla dump-log`: which files are meant, how the lines of a dump are printed, and what the exit status is."""
