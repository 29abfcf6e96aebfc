"""transformers' generate, whose sizes change from step to step and whose caches differ, with a compiler."""

from __future__ import annotations

import pytest
import torch

import pellucid

transformers = pytest.importorskip("transformers")


def small_model():
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=64, pad_token_id=0,
    )  # fmt: skip
    return transformers.LlamaForCausalLM(config).eval()


def generated(model):
    ids = torch.randint(1, 64, (2, 5), generator=torch.Generator().manual_seed(0))
    results = [model.generate(ids, max_new_tokens=8, do_sample=False)]
    torch.manual_seed(1)
    results.append(model.generate(ids, max_new_tokens=6, do_sample=True, top_k=5, temperature=0.7))
    results.append(model.generate(ids, max_new_tokens=6, num_beams=3))
    results.append(model.generate(ids, max_new_tokens=6, cache_implementation="static"))
    return [result.tolist() for result in results]


def test_what_the_compiler_asks_of_sizes_names_only_those_that_stay_open():
    """Sizes are said in each other, again and again: one with a single value is left in what was asked."""
    model, plain = small_model(), small_model()
    model.forward = pellucid.compile(model.forward, backend="aot_eager")
    assert generated(model) == generated(plain)
    assert 1 <= pellucid.counters()["graphs"] <= 8
