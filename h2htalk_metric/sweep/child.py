"""``python child.py PARENT COMMAND...``: become COMMAND, and be terminated when the process PARENT ends.

A sweep that is killed must not leave a model behind that works on in its run folder.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1  # of prctl(2)


def main() -> None:
    """Ask Linux for SIGTERM at the parent's end; it stays in force in the new program."""
    parent, *command = sys.argv[1:]
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != int(parent):  # it ended before the line above
            raise SystemExit(143)
    os.execv(command[0], command)


if __name__ == "__main__":
    main()
