"""transformers' Trainer: `--torch-compile` as its own option, `--model` with a model that is compiled already."""

import sys
import tempfile

import torch
from reported import norms, report
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

torch.manual_seed(0)
model = GPT2LMHeadModel(
    GPT2Config(n_layer=2, n_head=2, n_embd=32, vocab_size=64, n_positions=32, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0)
)
rows = [{"input_ids": row, "labels": row} for row in torch.randint(0, 64, (12, 16), generator=torch.Generator())]
with tempfile.TemporaryDirectory() as folder:
    options = {}
    if "--torch-compile" in sys.argv:
        options = {"torch_compile": True, "torch_compile_backend": "eager"}
    arguments = TrainingArguments(
        folder, max_steps=3, per_device_train_batch_size=4, report_to=[], save_strategy="no", use_cpu=True,
        logging_steps=1, seed=1, disable_tqdm=True, dataloader_pin_memory=False,
        remove_unused_columns=False, label_names=["labels"], **options,
    )  # fmt: skip
    given = torch.compile(model, backend="eager") if "--model" in sys.argv else model
    trainer = Trainer(given, arguments, train_dataset=rows, eval_dataset=rows[:4])
    loss = trainer.train().training_loss
    evaluated = trainer.evaluate()["eval_loss"]
    saved = model
    if "--model" not in sys.argv:  # of a model that was compiled before, the Trainer saves names with a prefix
        trainer.save_model(folder)
        saved = GPT2LMHeadModel.from_pretrained(folder)
report(loss, evaluated, norms(model), norms(saved))
