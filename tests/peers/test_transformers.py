"""Llama against Hugging Face transformers: the same weights, the same scores, the same text."""

import pytest
import torch

from attnlib import llama_from_hugging_face

SCALED = {"rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0, "low_freq_factor": 1.0,
          "high_freq_factor": 4.0, "original_max_position_embeddings": 16}  # fmt: skip


@pytest.fixture(
    params=[
        {},
        {"num_key_value_heads": 2, "head_dim": 12},
        {"tie_word_embeddings": True},
        {"rope_parameters": SCALED},
    ],
    ids=["plain", "grouped", "tied", "scaled"],
)
def both(request, peer):
    transformers = peer("transformers")
    settings = {"vocab_size": 50, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 3,
                "num_attention_heads": 4, "max_position_embeddings": 64, "initializer_range": 0.3,
                "bos_token_id": None, "eos_token_id": None, **request.param}  # fmt: skip
    with torch.random.fork_rng():
        torch.manual_seed(0)
        theirs = transformers.LlamaForCausalLM(transformers.LlamaConfig(**settings)).eval()
    return llama_from_hugging_face(theirs.state_dict(), theirs.config.to_dict()), theirs


@torch.no_grad()
def test_scores(both):
    ours, theirs = both
    tokens = torch.randint(50, (2, 40), generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(ours(tokens), theirs(tokens).logits, rtol=1e-4, atol=1e-4)


@torch.no_grad()
def test_text_that_is_generated(both):
    ours, theirs = both
    tokens = torch.randint(50, (2, 5), generator=torch.Generator().manual_seed(2))
    expected = theirs.generate(tokens, attention_mask=torch.ones_like(tokens), max_new_tokens=20,
                               do_sample=False, pad_token_id=0)  # fmt: skip
    assert ours.generate(tokens, 20) == expected[:, 5:].tolist()
