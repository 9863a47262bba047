"""The log of the cluster metadata, and `meta.properties`."""
