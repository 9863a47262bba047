"""Requests of every API and version, plausible and broken, and a run that sends them to a broker process for as long as one likes."""
