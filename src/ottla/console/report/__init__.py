"""A group's story as one self-contained page: a file that opens without a server and without a network, and a notebook's output.

It stands in `console` because it draws stories and knows nothing of where they come from; the live page will draw with the same modules.
"""
