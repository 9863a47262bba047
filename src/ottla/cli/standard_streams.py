"""Makes sure that descriptors 0, 1 and 2 are open: one that is missing at the start (`<&-`, `2>&-`) becomes /dev/null.

Otherwise the next file or socket would be 0, 1 or 2. libuv ends the process when it closes such a one, and what is written to stderr would
be written into a log of records.
"""

import os


def open_standard_streams() -> None:
    """Open those of the three that are closed. To be called before anything else is opened."""
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # the lowest free one is this one
