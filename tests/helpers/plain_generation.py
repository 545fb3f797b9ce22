"""Plain generation with Transformers, which our engine is compared with."""

import torch


def plain_answer(loaded, prompt):
    """What `model.generate` answers to one prompt alone: no padding, no cache of ours."""
    text = loaded.tokenizer.apply_chat_template(list(prompt.messages), tokenize=False, add_generation_prompt=True)
    ids = loaded.tokenizer(text, add_special_tokens=False, return_tensors="pt")
    with torch.inference_mode():
        out = loaded.model.generate(**ids, max_new_tokens=prompt.max_new_tokens, do_sample=False)
    return loaded.tokenizer.decode(out[0, ids["input_ids"].shape[1] :], skip_special_tokens=True).strip()
