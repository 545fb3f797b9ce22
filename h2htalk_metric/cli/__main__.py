"""``python -m h2htalk_metric.cli`` is the command ``h2htalk``, for launchers that take a module."""

from h2htalk_metric.cli.main import main

if __name__ == "__main__":
    main()
