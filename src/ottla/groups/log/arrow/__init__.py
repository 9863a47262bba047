"""Records of the offsets topic to Arrow, and how kernels read commits."""
