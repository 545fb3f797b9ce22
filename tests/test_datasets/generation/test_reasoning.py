"""Thoughts are cut from an answer and stored."""

import copy

import pytest
from transformers import AddedToken

from h2htalk_datasets.generation import Prompt
from h2htalk_datasets.generation.engines.reasoning import cut_reasoning, opened_by
from h2htalk_datasets.generation.engines.tokens import PromptTokens

ANALYSIS, FINAL = "<|channel|>analysis<|message|>", "<|end|><|start|>assistant<|channel|>final<|message|>"


@pytest.mark.parametrize(
    ("text", "answer", "thoughts"),
    [
        ("Come in.", "Come in.", None),
        ("<think>She is cold.</think>\n\nCome in.", "Come in.", "She is cold."),
        ("<thinking>a\nb</thinking>Come in.", "Come in.", "a\nb"),
        ("She is cold.\n</think>\nCome in.", "Come in.", "She is cold."),  # the template opened the block
        ("<think>She is co", "", "She is co"),  # the limit was reached within
        ("<think></think>Come in.", "Come in.", None),
        ("<think>a</think>Come <think>b</think>in.", "Come in.", "a\n\nb"),
        ("a</think>Come in. <think>and then", "Come in.", "a\n\nand then"),
        ("I think <thin ice> breaks.", "I think <thin ice> breaks.", None),
        ("", "", None),
        ("[THINK]She is cold.[/THINK]Come in.", "Come in.", "She is cold."),
        (f"{ANALYSIS}She is cold.{FINAL}Come in.<|return|>", "Come in.", "She is cold."),
        (f"{ANALYSIS}She is co", "", "She is co"),
        (f"{ANALYSIS}a<|end|><|start|>assistant<|channel|>commentary to=x <|message|>b{FINAL}Come", "Come", "a\n\nb"),
    ],
)
def test_cut(text, answer, thoughts):
    assert cut_reasoning(text) == (answer, thoughts)


@pytest.mark.parametrize(
    ("prompt", "opened"),
    [
        ("<|Assistant|><think>\n", "<think>\n"),
        ("assistant\n<think>\n\n</think>\n\n", ""),
        ("Say <think>, then speak.\nassistant\n", ""),
        ("<|start|>assistant<|channel|>final<|message|>", "<|channel|>final<|message|>"),
        ("<|start|>assistant", ""),
    ],
)
def test_the_tag_that_a_prompt_ends_with(prompt, opened):
    assert opened_by(prompt) == opened


@pytest.mark.parametrize(
    ("opening", "generated", "answer", "thoughts"),
    [
        ("<think>\n", "She is co", "", "She is co"),  # the limit was reached, and the text has no tag
        ("<think>\n", "She is cold.</think>Come in.", "Come in.", "She is cold."),
        ("", "[THINK]She is cold.[/THINK]Come in.", "Come in.", "She is cold."),
        ("<|start|>assistant", f"{ANALYSIS}She is cold.{FINAL}Come in.", "Come in.", "She is cold."),
        ("", "Come<|end|> in.", "Come in.", None),
    ],
)
def test_thoughts_in_special_tokens_and_in_a_block_of_the_template(demo, opening, generated, answer, thoughts):
    tokenizer = copy.deepcopy(demo.tokenizer)
    names = ("[THINK]", "[/THINK]", "<|channel|>", "<|message|>", "<|start|>", "<|end|>")
    tokenizer.add_tokens([AddedToken(name, special=True) for name in names], special_tokens=True)
    tokenizer.chat_template = "{% for m in messages %}{{ m.content }}{% endfor %}" + opening
    prompt = Prompt("a", "DialogueBase", "ana", ({"role": "system", "content": "Be kind."},), 50)
    tokens = PromptTokens(tokenizer, [tokenizer.eos_token_id], "tiny", None)
    tokens.add([prompt])
    result = tokens.answer(prompt, tokenizer(generated, add_special_tokens=False)["input_ids"])
    assert (result.text, result.reasoning) == (answer, thoughts)
