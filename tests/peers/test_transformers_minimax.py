"""MiniMax against Hugging Face transformers: the same weights, the same scores, the same text."""

import pytest
import torch

from attnlib import minimax_from_hugging_face

FACTORS = {"full_attn_alpha_factor": 1.3, "full_attn_beta_factor": 0.7, "linear_attn_alpha_factor": 2.0,
           "linear_attn_beta_factor": 0.9, "mlp_alpha_factor": 1.7, "mlp_beta_factor": 1.1}  # fmt: skip
SEVEN_TO_ONE = ["linear_attention"] * 7 + ["full_attention"]


@pytest.fixture(
    params=[
        {},
        {"layer_types": SEVEN_TO_ONE, "num_hidden_layers": 8, **FACTORS},
        {"num_attention_heads": 6, "num_key_value_heads": 3, "head_dim": 10, "num_local_experts": 5,
         "num_experts_per_tok": 3},
        {"layer_types": ["linear_attention"], "num_hidden_layers": 1, "tie_word_embeddings": True},
        {"rope_parameters": {"rope_type": "default", "rope_theta": 100.0}, "rms_norm_eps": 0.01},
    ],
    ids=["alternating", "seven_to_one", "six_heads", "one_layer", "rope"],
)  # fmt: skip
def both(request, peer):
    transformers = peer("transformers")
    settings = {"vocab_size": 50, "hidden_size": 32, "intermediate_size": 24, "num_hidden_layers": 4,
                "num_attention_heads": 4, "num_key_value_heads": 2, "num_local_experts": 4, "block_size": 8,
                "initializer_range": 0.3, "bos_token_id": None, "eos_token_id": None,
                "max_position_embeddings": 64, **request.param}  # fmt: skip
    with torch.random.fork_rng():
        torch.manual_seed(0)
        theirs = transformers.MiniMaxForCausalLM(transformers.MiniMaxConfig(**settings)).eval()
        for name, weight in theirs.named_parameters():
            if "norm" in name:
                torch.nn.init.uniform_(weight, 0.5, 1.5)
    return minimax_from_hugging_face(theirs.state_dict(), theirs.config.to_dict()), theirs


def some_tokens(*shape, seed=1):
    return torch.randint(50, shape, generator=torch.Generator().manual_seed(seed))


@torch.no_grad()
def test_scores(both):
    ours, theirs = both
    tokens = some_tokens(2, 29)
    torch.testing.assert_close(ours(tokens), theirs(tokens).logits, rtol=1e-4, atol=1e-4)


@torch.no_grad()
def test_scores_with_padding_on_the_left_at_once_and_in_pieces(both):
    ours, theirs = both
    tokens, cache = some_tokens(3, 21), ours.new_cache(3, 21)
    real = torch.arange(21) >= torch.tensor([0, 4, 13])[:, None]
    expected = theirs(tokens, attention_mask=real.long()).logits[real]
    torch.testing.assert_close(ours(tokens, real)[real], expected, rtol=1e-4, atol=1e-4)
    pieces = [(0, 15), (15, 16), (16, 17), (17, 21)]
    parts = [ours(tokens[:, a:b], real[:, a:b], cache=cache) for a, b in pieces]
    torch.testing.assert_close(torch.cat(parts, 1)[real], expected, rtol=1e-4, atol=1e-4)


@torch.no_grad()
def test_scores_and_text_with_a_cache(both):
    """``generate`` says at which positions its tokens stand, and there is no padding.

    Elsewhere transformers asks the first layer how many tokens were read, and a lightning layer answers none.
    """
    ours, theirs = both
    tokens, cache = some_tokens(2, 11, seed=2), ours.new_cache(2, 22)
    out = theirs.generate(tokens, attention_mask=torch.ones_like(tokens), max_new_tokens=12, do_sample=False,
                          pad_token_id=0, return_dict_in_generate=True, output_logits=True)  # fmt: skip
    new = out.sequences[:, 11:]
    got = [ours(tokens, cache=cache)[:, -1]]
    got += [ours(new[:, t : t + 1], cache=cache)[:, -1] for t in range(11)]
    torch.testing.assert_close(torch.stack(got), torch.stack(out.logits), rtol=1e-4, atol=1e-4)
    assert ours.generate(tokens, 12) == new.tolist()
