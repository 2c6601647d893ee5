"""Causal linear attention against PyTorch's fused softmax attention, and against other ways of computing it.

One batch of 4 heads with 64 features. The other ways are written anew from what they do: all chunks at once,
as the plain form of fla-org/flash-linear-attention; a loop over tokens; a table of sums for each token.
"""

import torch
from attention import run
from protocol import Case, Gap
from torch.nn.functional import elu, scaled_dot_product_attention

from attnlib import linear_attention

FORWARD = {512: 0.65, 1024: 0.5, 4096: 0.18, 16384: 0.06}
AT_ONCE = {1024: 1.0, 4096: 0.8, 16384: 0.65, 65536: 0.4}
BACKWARD = {1024: 0.45, 4096: 0.17}
MEMORY = (
    "many small products and passes over memory, against one kernel, which gains more where a processor "
    "multiplies fast (AVX-512) and loses less on a busy machine"
)


def cases(small=False):
    """The rows D1 to D4."""
    for length, target in FORWARD.items():
        name = f"D1 linear attention of {length} tokens, causal, forward, against the fused softmax"
        yield Case(name, target, *_sides(softmax, 200 if small else length), gap=Gap(1.35 * target, MEMORY))
    for length, target in AT_ONCE.items():
        name = f"D2 linear attention of {length} tokens, causal, forward, against all chunks at once"
        yield Case(name, target, *_sides(at_once, 192 if small else length))
    for length, target in BACKWARD.items():
        name = f"D3 linear attention of {length} tokens, causal, with backward, against the fused softmax"
        sides = _sides(softmax, 200 if small else length, backward=True)
        yield Case(name, target, *sides, gap=Gap(1.35 * target, MEMORY))
    for other, name, target, needs in (
        (performer, "performer-pytorch on a processor", 0.12, "performer_pytorch"),
        (token_by_token, "a loop over tokens", 0.10, ""),
        (with_all_tables, "a table of sums for each token", 0.02, ""),
    ):
        name = f"D4 linear attention of 1024 tokens, causal, forward, against {name}"
        sides = _sides(other, 128 if small else 1024)
        yield Case(name, target, *sides, gap=Gap(1.35 * target, MEMORY), needs=needs)


def _sides(other, length, backward=False):
    generator = torch.Generator().manual_seed(0)
    qkv = [torch.randn(1, 4, length, 64, generator=generator).requires_grad_(backward) for _ in range(3)]
    return (lambda: run(linear_attention(*qkv, causal=True), qkv)), (lambda: run(other(*qkv), qkv))


def softmax(q, k, v):
    return scaled_dot_product_attention(q, k, v, is_causal=True)


def at_once(q, k, v, size=64):
    """Products within chunks, and a running sum over the tables of all chunks; z apart."""
    q, k = elu(q) + 1, elu(k) + 1
    chunks = [x.unflatten(-2, (-1, size)) for x in (q, k, v)]
    tables = chunks[1].mT @ chunks[2]
    earlier = tables.cumsum(-3) - tables
    within = (chunks[0] @ chunks[1].mT).tril() @ chunks[2]
    out = (within + chunks[0] @ earlier).flatten(-3, -2)
    return out / ((q * k.cumsum(-2)).sum(-1, keepdim=True) + 1e-10)


def token_by_token(q, k, v):
    q, k = elu(q) + 1, elu(k) + 1
    S, z, out = q.new_zeros(*q.shape[:2], q.shape[-1], v.shape[-1]), torch.zeros_like(q[:, :, 0]), []
    for i in range(q.shape[-2]):
        S = S + k[:, :, i, :, None] * v[:, :, i, None, :]
        z = z + k[:, :, i]
        token = q[:, :, i]
        out.append((token[:, :, None] @ S)[:, :, 0] / ((token * z).sum(-1, keepdim=True) + 1e-6))
    return torch.stack(out, -2)


def with_all_tables(q, k, v):
    q, k = elu(q) + 1, elu(k) + 1
    tables = (k[..., :, None] * v[..., None, :]).cumsum(-3)
    return (q[..., None, :] @ tables)[..., 0, :] / ((q * k.cumsum(-2)).sum(-1, keepdim=True) + 1e-6)


def performer(q, k, v):
    """It says so where it finds no CUDA code, and takes this way; its chunks are 128 of whatever length."""
    from performer_pytorch.performer_pytorch import causal_linear_attention_noncuda

    return causal_linear_attention_noncuda(elu(q) + 1, elu(k) + 1, v)
