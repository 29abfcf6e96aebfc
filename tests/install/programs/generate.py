"""transformers' generate with a static cache, which compiles the model's call by itself."""

import sys

import torch
from reported import report
from transformers import CompileConfig, LlamaConfig, LlamaForCausalLM

torch.manual_seed(0)
config = LlamaConfig(
    num_hidden_layers=2, hidden_size=32, intermediate_size=64, num_attention_heads=4, num_key_value_heads=2, vocab_size=64,
    bos_token_id=1, eos_token_id=None, pad_token_id=0,
)  # fmt: skip
model = LlamaForCausalLM(config).eval()
compiling = CompileConfig(backend="eager", mode=None, fullgraph=False)
compiling._compile_all_devices = "--compile" in sys.argv  # else only on accelerators
ids = torch.randint(2, 64, (2, 7))
tokens = model.generate(
    ids, max_new_tokens=10, do_sample=False, cache_implementation="static", compile_config=compiling,
    disable_compile="--compile" not in sys.argv,
)  # fmt: skip
report(tokens)
