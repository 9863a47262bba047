"""Record batches to Arrow: batches chosen and expanded, kernels that fill columns, the decoder of records."""
