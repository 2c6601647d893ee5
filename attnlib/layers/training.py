"""Training of a `Transformer`, step by step, in the hands of whoever asks for the next step."""

from itertools import islice

import torch
from torch.nn.functional import cross_entropy
from torch.nn.utils import clip_grad_norm_

from attnlib.core.arrays import valid_length
from attnlib.core.schedules import cosine_rate
from attnlib.core.shifting import teacher_forcing


def train(model, batches, *, steps=500, rate=3e-3, warm_up=100, clip=1.0, weight_decay=0.01):
    """Train with teacher forcing, AdamW and `cosine_rate`; a step is taken when its loss is asked for.

    Parameters
    ----------
    model : Transformer
        Trained where it stands; in training mode from the first step to the last, in evaluation mode after.
    batches : iterable of (src, tgt)
        Integer arrays or tensors ``(B, S)`` and ``(B, L)``, one pair of them a step.
    steps : int >= 1
    rate : float
        The highest learning rate.
    warm_up : int >= 1
        Steps until it is reached.
    clip : float
        The greatest norm of the gradients together; longer ones are shortened to it.
    weight_decay : float

    Returns
    -------
    iterator of float
        The loss before each step: nats a word, padding left out.

    Raises
    ------
    TypeError, ValueError
        If a number is out of its range, or a batch is none.

    References
    ----------
    Loshchilov and Hutter 2019, arXiv 1711.05101 (AdamW). Betas and teacher forcing as in Vaswani et al.
    2017, arXiv 1706.03762, section 5.3; the rate falls to zero, for at a constant rate a small model's last
    errors stay.

    Examples
    --------
    >>> from attnlib.layers.transformer import Transformer
    >>> model = Transformer(9, d_model=8, num_heads=2, num_layers=1, d_ff=16)
    >>> copies = [(torch.tensor([[5, 3, 4]]), torch.tensor([[1, 5, 3, 4, 2]]))] * 3
    >>> len(list(train(model, copies, steps=3, warm_up=1)))
    3
    """
    steps = valid_length(steps, "steps")
    parameters = list(model.parameters())  # looking for them takes longer than a step of AdamW
    optimizer = torch.optim.AdamW(
        parameters, lr=rate, betas=(0.9, 0.98), weight_decay=weight_decay, fused=True
    )
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: cosine_rate(step + 1, steps + 1, warm_up)
    )
    model.train()
    for src, tgt in islice(batches, steps):
        inputs, targets = teacher_forcing(torch.as_tensor(tgt), pad_id=model.pad_id)
        scores = model(torch.as_tensor(src), inputs)
        ignored = -100 if model.pad_id is None else model.pad_id
        loss = cross_entropy(scores.flatten(0, 1), targets.flatten(), ignore_index=ignored)
        optimizer.zero_grad()
        loss.backward()
        clip_grad_norm_(parameters, clip)
        optimizer.step()
        schedule.step()
        yield loss.item()
    model.eval()
