"""`ottla migrate` behind its options: the clusters, the run in Spark, the progress bar, and what is printed."""
