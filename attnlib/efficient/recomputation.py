"""Attention by tiles for PyTorch's autograd, which keeps no weights for its backward pass."""

import torch
from array_api_compat import array_namespace

from attnlib.efficient.tiles import backward, forward


class Tiles(torch.autograd.Function):
    """Output and log-sum-exp of tensors of the type to compute in."""

    @staticmethod
    def forward(ctx, q, k, v, mask, how):
        out, lse = forward(array_namespace(q), q, k, v, mask, how)
        ctx.save_for_backward(q, k, v, mask, out, lse)
        ctx.how = how
        return out, lse

    @staticmethod
    def backward(ctx, d_out, d_lse):
        if torch.is_grad_enabled():  # a graph of this is asked for, and would be taken for a constant
            raise RuntimeError(
                "tiled_attention has first derivatives only; attention with return_weights=True has all"
            )
        q, k, v, mask, out, lse = ctx.saved_tensors
        d_mask = torch.zeros_like(mask, dtype=q.dtype) if ctx.needs_input_grad[3] else None
        dq, dk, dv = backward(array_namespace(q), q, k, v, out, lse, d_out, d_lse, mask, ctx.how, d_mask)
        return dq, dk, dv, d_mask, None
