"""peft: LoRA on a compiled model, trained, merged, saved and loaded."""

import sys
import tempfile

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from reported import norms, report
from transformers import GPT2Config, GPT2LMHeadModel

torch.manual_seed(0)


def base():
    torch.manual_seed(1)
    return GPT2LMHeadModel(
        GPT2Config(
            n_layer=2, n_head=2, n_embd=32, vocab_size=64, n_positions=32, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0
        )
    )


model = get_peft_model(base(), LoraConfig(r=4, target_modules=["c_attn"], lora_dropout=0.0, fan_in_fan_out=True))
called = torch.compile(model, backend="eager") if "--compile" in sys.argv else model
optimizer = torch.optim.SGD([p for p in called.parameters() if p.requires_grad], lr=0.5)
ids = torch.randint(0, 64, (2, 16))
losses = []
for _ in range(3):
    loss = called(input_ids=ids, labels=ids).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    losses.append(loss.item())
with tempfile.TemporaryDirectory() as folder:
    called.save_pretrained(folder)
    loaded = PeftModel.from_pretrained(base(), folder)
    merged = loaded.merge_and_unload()
report(*losses, norms(model), merged(ids).logits.double().norm())
