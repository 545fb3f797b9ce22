"""Progress on standard error."""

from h2htalk_datasets.progress import progress_bar


def test_a_log_shows_the_count_before_the_first_answer(capfd):
    with progress_bar("answers", 9, 3):
        assert "answers: 3/9" in capfd.readouterr().err


def test_a_log_shows_the_count_at_the_end(capfd):
    with progress_bar("answers", 9, 3) as progress:
        for _ in range(6):
            progress.update(1)
    assert "answers: 9/9" in capfd.readouterr().err


def test_other_processes_print_nothing(capfd):
    with progress_bar("answers", 9, shown=False) as progress:
        progress.update(9)
        assert progress.n == 0
    assert capfd.readouterr().err == ""
