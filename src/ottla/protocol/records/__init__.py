"""Record batches of format 2, control batches and compression: the reference codec."""
