"""Streaming queries of Spark whose driver, worker or broker is killed, and what their sink must hold afterwards."""
