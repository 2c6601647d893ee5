"""`MultiHeadAttention` against the Annotated Transformer's module and against PyTorch's own."""

import annotated
import torch
from attention import run
from protocol import Case
from torch import nn

from attnlib import MultiHeadAttention, causal_mask

SHORT, LONG, HEADS = (8, 128, 512), (1, 1024, 512), 8


def cases(small=False):
    """The rows G1 and G2."""
    for row, shape, forward, both in (("G1", SHORT, 0.90, 0.97), ("G2", LONG, 0.40, 0.50)):
        x, ours, theirs, torchs = _modules((2, 5, 16) if small else shape)
        hidden = ~causal_mask(x.shape[1], like=x)
        for target, pass_ in ((forward, _forward), (both, _forward_and_backward)):
            name = f"{row} multi-head module, {shape} causal, {pass_.__doc__}, against the annotated one"
            yield Case(name, target,
                       lambda x=x, ours=ours, pass_=pass_: pass_(ours, x, causal=True),
                       lambda x=x, theirs=theirs, pass_=pass_, hidden=hidden: pass_(
                           theirs, x, x, x, ~hidden))  # fmt: skip
        if row == "G2":
            name = f"G2 multi-head module, {shape} causal, forward, against nn.MultiheadAttention in eval"
            yield Case(name, 0.40, lambda x=x, ours=ours: _forward(ours, x, causal=True),
                       lambda x=x, torchs=torchs, hidden=hidden: _forward(
                           torchs, x, x, x, attn_mask=hidden, need_weights=False))  # fmt: skip


def _modules(shape):
    """A batch, and three modules with the same weights."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        x = torch.randn(shape, requires_grad=True)
        theirs = annotated.MultiHeadedAttention(HEADS, shape[-1])
    ours = MultiHeadAttention(shape[-1], HEADS)
    torchs = nn.MultiheadAttention(shape[-1], HEADS, batch_first=True).eval()
    *inner, outer = theirs.linears
    state = {"in_proj_weight": torch.cat([linear.weight for linear in inner]),
             "in_proj_bias": torch.cat([linear.bias for linear in inner]),
             "out_proj.weight": outer.weight, "out_proj.bias": outer.bias}  # fmt: skip
    ours.load_state_dict(state)
    torchs.load_state_dict(state)
    return x, ours, theirs, torchs


@torch.no_grad()
def _forward(module, *inputs, **settings):
    """forward"""
    out = module(*inputs, **settings)
    return out[0] if isinstance(out, tuple) else out


def _forward_and_backward(module, x, *inputs, **settings):
    """forward and backward"""
    out, x_gradient, *_ = run(module(x, *inputs, **settings), (x, *module.parameters()))
    return out, x_gradient
