"""The callback with the demo model, a real chat model, in real training; slow."""

import pytest
from test_callback import train


@pytest.mark.very_slow
@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_demo_model_trains_and_is_scored_alike_on_one_and_two_processes(demo, tmp_path):
    import copy

    from transformers import AutoModelForCausalLM

    # A model that was read from GGUF can't be saved as it is; a plain one with its weights can.
    config = copy.deepcopy(demo.model.config)
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    plain = AutoModelForCausalLM.from_config(config)
    plain.load_state_dict(demo.model.state_dict())
    plain.generation_config.eos_token_id = demo.tokenizer.eos_token_id
    plain.save_pretrained(tmp_path / "model")
    demo.tokenizer.save_pretrained(tmp_path / "model")
    one, two = (train(tmp_path / "model", tmp_path / str(n), n, "demo") for n in (1, 2))
    for mine, other in zip(one["logged"], two["logged"], strict=True):
        figures = {key: value for key, value in mine.items() if "h2htalk" in key}
        assert len(figures) == 8
        assert figures["eval_h2htalk_composite"] > 0.02
        assert figures == pytest.approx({key: other[key] for key in figures}, abs=1e-6)
