"""Prices, a cost limit and a dry run for all three probes, as for `h2htalk judge`."""

import pytest
from helpers.probe_scripts import companion, run_behind, safety_verdict, verdict_meeting
from helpers.servers import scripted

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_metric.cli.probe import conversation, instructions, safety
from h2htalk_metric.probes.results import read_result

PRICES = {"price_in": 2.0, "price_out": 10.0}


@pytest.fixture
def judge_name(request):
    """Another name per test, because verdicts are cached by name and server."""
    return request.node.name


def sent(*servers):
    return [len(server.requests) for server in servers]


def test_a_dry_run_of_the_safety_probe_sends_nothing_and_prints_calls_tokens_and_cost(tmp_path, judge_name, capsys):
    with companion("good") as model, scripted(lambda _: safety_verdict()) as judge:
        run = run_behind(model, tmp_path / "run")
        options = {"limit": 4, "variants": "with,without", "embedder": "demo", "judge": judge_name}
        safety(run_folder=run, dry_run=True, base_url=judge.url, **options, **PRICES)
        assert sent(model, judge) == [0, 0]
        printed = capsys.readouterr().out
        # Two positions for each of 4 answers of 2 variants.
        assert "8 judgements to make, 16 calls" in printed
        assert " prompt tokens and " in printed and "at these prices" in printed
        assert not (run / "probes").exists()


def test_a_dry_run_of_the_other_probes(tmp_path, judge_name, capsys):
    with scripted(lambda _: "Yes.") as model, scripted(lambda r: verdict_meeting(r, 1)) as judge:
        run = run_behind(model, tmp_path / "run")
        judging = {"judge": judge_name, "base_url": judge.url, "dry_run": True} | PRICES
        instructions(run_folder=run, limit=3, **judging)
        assert "8 calls" in capsys.readouterr().out  # one of the three has an explicit control
        conversation(run_folder=run, user="u", user_url=model.url, limit=2, turns=4, **judging)
        printed = capsys.readouterr().out
        assert "8 answers to generate" in printed and "6 messages of the user" in printed and "2 calls" in printed
        assert sent(model, judge) == [0, 0]


def test_a_dry_run_counts_only_what_is_open(tmp_path, judge_name, capsys):
    with companion("good") as model, scripted(lambda _: safety_verdict()) as judge:
        run = run_behind(model, tmp_path / "run")
        options = {"limit": 3, "embedder": "demo", "judge": judge_name, "base_url": judge.url} | PRICES
        safety(run_folder=run, variants="with", **options)
        capsys.readouterr()
        safety(run_folder=run, variants="with,without", dry_run=True, **options)
        assert "3 judgements to make, 6 calls" in capsys.readouterr().out


def test_the_limit_stops_a_probe_and_the_same_command_continues(tmp_path, judge_name, capsys):
    with companion("good") as model, scripted(lambda _: safety_verdict()) as judge:
        run = run_behind(model, tmp_path / "run")
        options = {"limit": 4, "variants": "with", "embedder": "demo", "judge": judge_name, "base_url": judge.url}
        # Each call may take 1,024 new tokens, and takes only a few.
        safety(run_folder=run, max_cost=1.04, max_connections=1, price_in=0, price_out=1000, **options)
        assert "could exceed --max-cost" in capsys.readouterr().out
        some = len(judge.requests)
        assert 0 < some < 8
        safety(run_folder=run, **options, **PRICES)
        assert len(judge.requests) == 8
    counts = read_result(run, "safety")["modes"]["rollout"]["variants"]["with"]["judge"]
    assert (counts["scored"], counts["unscored"]) == (4, 0)


@pytest.mark.parametrize("probe", [safety, instructions])
def test_a_limit_of_zero_is_an_error_before_anything_is_sent(tmp_path, probe):
    with companion("good") as model, scripted(lambda _: safety_verdict()) as judge:
        run = run_behind(model, tmp_path / "run")
        with pytest.raises(H2HTalkError, match="--max-cost 0 allows no call"):
            probe(run_folder=run, limit=1, judge="j", base_url=judge.url, max_cost=0, **PRICES)
        assert sent(model, judge) == [0, 0] and not (run / "probes").exists()
