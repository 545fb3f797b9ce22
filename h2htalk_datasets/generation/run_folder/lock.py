"""The lock of a run folder: one job at a time."""

__all__ = ["FolderLock"]

from pathlib import Path

from filelock import FileLock, SoftFileLock, Timeout

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.files import describe_write_errors


class FolderLock:
    """Locks a folder until it is released or the process ends, however it ends.

    Args:
        folder: created if it does not exist.

    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = FileLock(folder / ".lock")

    def acquire(self) -> None:
        """Lock the folder.

        Raises:
            H2HTalkError: another job works in it, or it cannot be written.

        """
        with describe_write_errors(f"the run folder {self._folder}"):
            self._folder.mkdir(parents=True, exist_ok=True)
            try:
                self._lock.acquire(timeout=0)
            except Timeout:
                # Without flock (on some Lustre disks) the lock is a file, which a killed job on another node leaves.
                hint = f", or delete {self._lock.lock_file} if that job has ended"
                raise H2HTalkError(
                    f"another job is at work in {self._folder}; wait for it, or choose another --out"
                    + (hint if isinstance(self._lock, SoftFileLock) else "")
                ) from None

    def release(self) -> None:
        """Let other jobs in."""
        self._lock.release()
