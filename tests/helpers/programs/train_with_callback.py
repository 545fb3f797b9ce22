"""A few real training steps with the callback; run by test_callback.py, on one process and on two.

Arguments: the model's folder, that for the Trainer, examples a device, the embedders of the callbacks joined by commas
("lexical" for the light mode; "" for no callback), and the dropout of training.
"""

import hashlib
import json
import sys

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, Trainer, TrainingArguments

from h2htalk_metric.callback import H2HTalkCallback

folder, out, per_device, embedders = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
tokenizer = AutoTokenizer.from_pretrained(folder)
model = AutoModelForCausalLM.from_pretrained(folder, attention_dropout=float(sys.argv[5]))
ids = torch.tensor([tokenizer("a short text to learn, again and again")["input_ids"]] * 8)
data = [{"input_ids": row, "labels": row} for row in ids]
arguments = TrainingArguments(
    out,
    use_cpu=True,
    max_steps=4,
    eval_strategy="steps",
    eval_steps=2,
    save_strategy="no",
    learning_rate=1e-4,
    per_device_train_batch_size=per_device,
    per_device_eval_batch_size=per_device,
    report_to=[],
    disable_tqdm=True,
)
trainer = Trainer(model, arguments, train_dataset=data, eval_dataset=data, processing_class=tokenizer)
config = model.generation_config
tasks = "ItineraryResponse,RecollectionRefinement"
for embedder in filter(None, embedders.split(",")):
    named = None if embedder == "lexical" else embedder
    trainer.add_callback(H2HTalkCallback(trainer, tasks=tasks, limit=2, embedder=named, batch_size=1))
trainer.train()
assert model.generation_config is config
metrics = trainer.evaluate()
if trainer.is_world_process_zero():
    logged = [entry for entry in trainer.state.log_history if any("h2htalk" in key for key in entry)]
    weights = hashlib.sha256(b"".join(value.numpy().tobytes() for value in model.state_dict().values())).hexdigest()
    result = {"logged": logged, "metrics": metrics, "weights": weights}
    print("RESULT " + json.dumps(result) + "\n", end="", flush=True)  # one write: other ranks' libraries speak too
