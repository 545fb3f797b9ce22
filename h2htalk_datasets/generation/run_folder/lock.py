"""The lock of a run folder: one job at a time."""

__all__ = ["acquire_lock"]

from pathlib import Path

from filelock import BaseFileLock, FileLock, SoftFileLock, Timeout

from h2htalk_datasets.errors import H2HTalkError


def acquire_lock(folder: Path, wait_seconds: float = 0) -> BaseFileLock:
    """Lock a folder until the lock is released or the process ends, however it ends.

    Args:
        folder: is created if it does not exist.
        wait_seconds: for another job that has locked it.

    Raises:
        H2HTalkError: another job works in the folder.
        OSError: the folder cannot be written.

    """
    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / ".lock")
    try:
        lock.acquire(timeout=wait_seconds)
    except Timeout:
        hint = f", or delete {lock.lock_file} if that job has ended" if _is_only_a_file(lock) else ""
        raise H2HTalkError(f"another job is at work in {folder}; wait for it, or choose another --out{hint}") from None
    return lock


def _is_only_a_file(lock: BaseFileLock) -> bool:
    """Whether the lock is the file itself, as without flock (on some Lustre disks): a killed job leaves such a file.

    Filelock shows it by the class of the lock before version 4.2, and by a file that names its owner since then.
    """
    file = Path(lock.lock_file)
    return isinstance(lock, SoftFileLock) or (file.exists() and bool(file.read_bytes()))
