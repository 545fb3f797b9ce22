"""Generation with real models: prefix reuse, resume, kills, one process and two."""

import json
import signal
from dataclasses import replace

import pytest
import torch
from helpers.launch import alone, arguments, lines_on_disk, started, torchrun
from helpers.plain_generation import plain_answer

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_datasets.generation import Prompt, Settings, generate, make_plan
from h2htalk_datasets.generation.engines.models import checkpoint_digest, load_model
from h2htalk_datasets.generation.engines.noise import gumbel_noise
from h2htalk_datasets.generation.engines.sampling import Sampling, record_seed
from h2htalk_datasets.generation.engines.transformers import TransformersEngine
from h2htalk_datasets.generation.requests import chosen_rows
from h2htalk_datasets.prompts import render

TASKS = "DialogueBase,RecollectionRefinement,ItineraryResponse"  # short answers


def prompts_of(rows, max_new_tokens=12):
    return [Prompt(r["id"], r["task"], r["relationship"], tuple(render(r)), max_new_tokens) for r in rows]


@pytest.fixture(scope="module")
def plain_answers(demo):
    """Two prompts with different limits of new tokens, and what the demo model answers to each alone."""
    prompts = prompts_of(chosen_rows("DialogueBase,ItineraryResponse", 1))
    prompts = [Prompt(p.id, p.task, "one group", p.messages, 8 + i) for i, p in enumerate(prompts)]
    return prompts, [plain_answer(demo, prompt) for prompt in prompts]


@pytest.mark.parametrize("share", [True, False])
def test_answers_are_those_of_plain_generation(demo, plain_answers, share):
    prompts, expected = plain_answers
    engine = TransformersEngine(demo, share_prefix=share)
    lengths = engine.prepare(prompts)
    answers = engine.answer(prompts, seed=0)
    assert [answer.text for answer in answers] == expected
    assert [answer.prompt_tokens for answer in answers] == lengths
    for prompt, answer in zip(prompts, answers, strict=True):
        assert answer.new_tokens == prompt.max_new_tokens or answer.finish_reason == "stop"
        assert answer.new_tokens <= prompt.max_new_tokens


def test_sampling_is_seeded_by_the_record(tiny_model):
    prompts = prompts_of(chosen_rows("DialogueBase", 4))
    same_text = replace(prompts[0], id="another id")
    loaded = load_model(str(tiny_model))
    engines = [TransformersEngine(loaded, temperature=1.0, share_prefix=share) for share in (True, False)]
    for engine in engines:
        engine.prepare([*prompts, same_text])
        first, same, other = (engine.answer(prompts[:1], seed) for seed in (1, 1, 2))
        assert first == same != other
        one, another = engine.answer([prompts[0], same_text], 1)
        assert one == first[0]
        assert one.text != another.text
    assert engines[0].answer(prompts, 1) == engines[1].answer(prompts, 1)  # plain generation samples the same tokens


def samples(scores, number):
    """Tokens of many records with the same scores, shape (number, rows)."""
    sampling, rows = Sampling(1.0, 1.0), len(scores)
    seeds = [[record_seed(0, f"{n}-{row}") for row in range(rows)] for n in range(number)]
    zero = torch.zeros(rows, dtype=torch.long)
    return torch.stack([sampling.choose(scores, torch.tensor(of_rows), zero) for of_rows in seeds])


def test_samples_follow_the_probabilities_of_all_tokens():
    scores = torch.tensor([[0.6, 0.3, 0.1], [0.1, 0.0, 0.9]]).log()
    tokens = samples(scores, 4000)
    shares = torch.stack([(tokens == token).float().mean(0) for token in range(3)], dim=1)
    assert torch.allclose(shares, scores.exp(), atol=0.03)  # four standard errors
    assert shares[1, 1] == 0


def test_samples_are_not_limited_to_the_fifty_most_likely_tokens():
    assert len(samples(torch.zeros(1, 200), 1000).unique()) > 150


def test_noise_differs_by_seed_count_and_token():
    seeds, counts = torch.tensor([1, 1, 2, 2**63 - 1]), torch.tensor([0, 1, 0, 0])
    noise = gumbel_noise(seeds, counts, 5000)
    assert noise.isfinite().all()
    assert len(noise.unique()) > 19_000
    assert torch.allclose(noise.mean(1), torch.full((4,), 0.5772), atol=0.08)  # Euler's constant; four standard errors
    assert torch.allclose(noise.std(1), torch.full((4,), 1.2825), atol=0.1)  # pi / sqrt(6)
    assert torch.corrcoef(noise).triu(1).abs().max() < 0.08


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_the_process_keeps_its_random_state(tiny_model, temperature):
    engine = TransformersEngine(load_model(str(tiny_model)), temperature=temperature, top_p=0.9)
    prompts = prompts_of(chosen_rows("DialogueBase", 2), max_new_tokens=4)
    before = torch.get_rng_state()
    engine.prepare(prompts)
    engine.answer(prompts, 1)
    assert torch.equal(torch.get_rng_state(), before)


def test_a_checkpoints_own_sampling_defaults_are_not_used(tiny_model):
    loaded = load_model(str(tiny_model))
    loaded.model.generation_config.repetition_penalty = 5.0
    loaded.model.generation_config.max_length = 3
    prompts = prompts_of(chosen_rows("DialogueBase", 1))
    changed, original = TransformersEngine(loaded), TransformersEngine(load_model(str(tiny_model)))
    for engine in (changed, original):
        engine.prepare(prompts)
    assert changed.answer(prompts, 0) == original.answer(prompts, 0)


@pytest.fixture(scope="module")
def settings(tiny_model):
    return Settings(model=str(tiny_model), tasks=TASKS, limit=8, batch_size=2)


@pytest.fixture(scope="module")
def uninterrupted(settings, tmp_path_factory):
    return generate(settings, tmp_path_factory.mktemp("runs") / "uninterrupted").read_bytes()


def test_a_run_is_complete_and_in_the_records_order(settings, uninterrupted):
    lines = [json.loads(line) for line in uninterrupted.decode().split("\n") if line]
    assert [line["id"] for line in lines] == [row["id"] for row in chosen_rows(settings.tasks, settings.limit)]
    assert set(lines[0]) == {"id", "prediction", "task", "finish_reason", "prompt_tokens", "new_tokens"}


def test_a_complete_run_is_not_changed(settings, uninterrupted, tmp_path):
    first = generate(settings, tmp_path / "run")
    shards = sorted((tmp_path / "run" / "shards").iterdir())
    assert generate(settings, tmp_path / "run").read_bytes() == first.read_bytes() == uninterrupted
    assert sorted((tmp_path / "run" / "shards").iterdir()) == shards


def test_the_number_of_rows_changes_nothing(settings, uninterrupted, tmp_path):
    assert generate(replace(settings, batch_size=7), tmp_path / "run").read_bytes() == uninterrupted


def test_only_what_is_not_on_disk_is_answered(settings, uninterrupted, tmp_path):
    out = tmp_path / "run"
    generate(settings, out)
    shard = next((out / "shards").iterdir())
    shard.write_bytes(shard.read_bytes()[:-20])  # a partial last line
    (out / "predictions.jsonl").unlink()
    assert generate(settings, out).read_bytes() == uninterrupted
    assert (out / "set_aside.jsonl").exists()


def test_resuming_with_other_settings_is_refused(settings, tmp_path):
    out = tmp_path / "run"
    before = generate(settings, out).read_bytes()
    with pytest.raises(H2HTalkError) as error:
        generate(replace(settings, seed=3, sap="none"), out)
    assert "generation.seed: 0 -> 3" in str(error.value)
    assert "prompts.sap" in str(error.value)
    assert (out / "predictions.jsonl").read_bytes() == before


@pytest.mark.slow
@pytest.mark.parametrize(("killed", "resumed"), [(1, 2), (2, 2), (2, 1)])
def test_kill_nine_loses_nothing(killed, resumed, settings, uninterrupted, tmp_path):
    out = tmp_path / "run"
    launch = {1: alone, 2: torchrun}
    with started([*launch[killed](killed), *arguments(settings, out)], tmp_path / "log") as job:
        job.wait_until(lambda: lines_on_disk(out) >= 8)
        job.kill()
    before = lines_on_disk(out)
    assert before >= 8
    with started([*launch[resumed](resumed), *arguments(settings, out)], tmp_path / "again") as job:
        assert job.ended_within(300) == 0, job.output
    assert (out / "predictions.jsonl").read_bytes() == uninterrupted
    total = len(chosen_rows(settings.tasks, settings.limit))
    assert lines_on_disk(out) <= total  # what was on disk was not generated again


def test_sampled_answers_are_the_same_at_two_processes_and_after_a_kill(settings, uninterrupted, tmp_path):
    sampled, out = replace(settings, temperature=0.8), tmp_path / "run"
    expected = generate(sampled, tmp_path / "uninterrupted").read_bytes()
    with started([*torchrun(2), *arguments(sampled, out)], tmp_path / "log") as job:
        job.wait_until(lambda: lines_on_disk(out) >= 8)
        job.kill()
    assert lines_on_disk(out) >= 8  # by two processes; the others by one
    assert generate(sampled, out).read_bytes() == expected != uninterrupted


def test_two_jobs_never_share_a_folder(settings, tmp_path):
    settings, out = replace(settings, limit=200), tmp_path / "run"
    with started([*alone(), *arguments(settings, out)], tmp_path / "log") as job:
        job.wait_until(lambda: lines_on_disk(out) >= 2)
        job.process.send_signal(signal.SIGSTOP)  # does not end while this test runs
        with pytest.raises(H2HTalkError, match="another job is at work"):
            generate(settings, out)


def test_an_unknown_model_is_one_line():
    with pytest.raises(H2HTalkError, match="cannot load the model 'nobody/nothing'"):
        load_model("nobody/nothing")


def test_the_digest_is_of_the_checkpoints_files_and_not_of_subfolders(tmp_path):
    weights, size = tmp_path / "model.safetensors", 64 * 2**20
    weights.write_bytes(bytes(size))
    before = checkpoint_digest(tmp_path)
    (tmp_path / "run" / "shards").mkdir(parents=True)
    (tmp_path / "run" / "run.json").write_text("{}")
    assert checkpoint_digest(tmp_path) == before
    with weights.open("r+b") as handle:  # one matrix in the middle, of a layer of 256 by 256
        handle.seek(size // 3)
        handle.write(b"\1" * 256 * 256 * 2)
    assert checkpoint_digest(tmp_path) != before


def test_unknown_dtype_is_named(tiny_model):
    with pytest.raises(H2HTalkError, match="unknown dtype 'float33'"):
        load_model(str(tiny_model), dtype="float33")


def test_the_plan_has_every_record_of_the_corpus():
    rows = chosen_rows()
    prompts = prompts_of(rows)
    plan = make_plan(prompts, [len(p.messages[0]["content"]) for p in prompts], 16)
    assert sum(map(len, plan)) == len(rows)
