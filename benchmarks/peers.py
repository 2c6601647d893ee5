"""Models of other packages in the size of ours (extra ``peers``), with first values: only speed is asked."""

import functools

import torch


def generators(size):
    """Of each package that generates: module, name, target, and a function of a prompt and a number."""
    key = size["vocab_size"], size["dim"], size["n_layers"], size["n_heads"]
    return (("transformers", "Hugging Face's GPT-2", 0.75, functools.partial(_hugging_face, key)),
            ("x_transformers", "x-transformers", 0.55, functools.partial(_x_transformers, key)))  # fmt: skip


@torch.no_grad()
def _hugging_face(key, prompt, new):
    return _gpt2(*key).generate(prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=new,
                                do_sample=False)[:, prompt.shape[1] :]  # fmt: skip


@functools.cache
def _gpt2(vocab_size, dim, n_layers, n_heads):
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(vocab_size=vocab_size, n_positions=1024, n_embd=dim, n_layer=n_layers, n_head=n_heads,
                        bos_token_id=None, eos_token_id=None)  # fmt: skip
    return GPT2LMHeadModel(config).eval()


@torch.no_grad()
def _x_transformers(key, prompt, new):
    return _decoder(*key).generate(prompt, new, temperature=0.0, cache_kv=True)


@functools.cache
def _decoder(vocab_size, dim, n_layers, n_heads):
    from x_transformers import AutoregressiveWrapper, Decoder, TransformerWrapper

    layers = Decoder(dim=dim, depth=n_layers, heads=n_heads, attn_dim_head=dim // n_heads, attn_flash=True)
    model = TransformerWrapper(num_tokens=vocab_size, max_seq_len=1024, attn_layers=layers)
    return AutoregressiveWrapper(model).eval()
