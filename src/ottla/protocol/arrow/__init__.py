"""Record batches to Arrow columns by compiled code (the extra `arrow`)."""
