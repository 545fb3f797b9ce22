"""Starting generation as people do: alone, by torchrun, by accelerate; and looking at what it left."""

import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

MODULE = "h2htalk_datasets.generation"
