"""What a learner waits for: the import, a step of training, and two models trained until they can do it."""

import itertools
import math
import statistics
import subprocess
import sys
import time
import warnings

import numpy as np
import torch
from protocol import Case, Gap
from torch import nn

from attnlib import (
    AttentionOnlyTransformer,
    Transformer,
    greedy_decode,
    repeated_tokens,
    sinusoidal_positions,
    teacher_forcing,
    train,
)

DIGITS, BEGIN, END = range(3, 13), 1, 2
WIDTH, HEADS, HIDDEN, BATCH = 64, 4, 128, 64
IMPORT = "import numpy, time; t = time.process_time(); import attnlib; print(time.process_time() - t)"


def cases(small=False):
    """The rows H1 to H4."""
    yield Case("H1 milliseconds of import attnlib beyond import numpy", 50.0,
               lambda: _import(1 if small else 7), unit="ms")  # fmt: skip
    name = "H2 a step of training, 1+1 layers of 64, batch 64, against nn.Transformer and plain AdamW"
    yield Case(name, 0.85, *_steps(), gap=Gap(1.0, (
        "the layers take as long on both sides, so the gain is that of the fused AdamW, about a twentieth "
        "of a step where matrix products are slow")))  # fmt: skip
    name = "H3 seconds until 12 digits are reversed, 99 of 100 without a slip"
    yield Case(name, 15.0, lambda: reversal(2 if small else 500), unit="s")
    name = "H4 seconds until induction is learned, 95 of 100 right within 200 steps, worst of four seeds"
    yield Case(name, 12.0, lambda: max(induction(seed, 2 if small else 200) for seed in range(4)), unit="s")


def _import(times):
    command = [sys.executable, "-c", IMPORT]
    return 1000 * statistics.median(float(subprocess.check_output(command)) for _ in range(times))


def _digits(n, generator):
    digits = torch.randint(DIGITS.start, DIGITS.stop, (n, 12), generator=generator)
    around = torch.ones(n, 1, dtype=torch.int64)
    return digits, torch.cat([BEGIN * around, digits.flip(1), END * around], 1)


def _transformer():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return Transformer(DIGITS.stop, d_model=WIDTH, num_heads=HEADS, num_layers=1, d_ff=HIDDEN,
                           dropout=0.0, norm_first=True)  # fmt: skip


def _steps():
    src, tgt = _digits(BATCH, torch.Generator().manual_seed(0))
    ours = train(_transformer(), itertools.repeat((src, tgt)), steps=10**9)
    theirs = TorchTransformer()
    adam = torch.optim.AdamW(theirs.parameters(), lr=3e-3)
    inputs, targets = teacher_forcing(tgt)

    def reference():
        loss = nn.functional.cross_entropy(theirs(src, inputs).flatten(0, 1), targets.flatten())
        adam.zero_grad()
        loss.backward()
        adam.step()
        return loss.item()

    return lambda: next(ours), reference


class TorchTransformer(nn.Module):
    """PyTorch's own layers, and what they leave to their user: embeddings, positions, masks, the output."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(DIGITS.stop, WIDTH)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "enable_nested_tensor")  # what it cannot do before a norm
            self.stacks = nn.Transformer(WIDTH, HEADS, 1, 1, HIDDEN, 0.0, norm_first=True, batch_first=True)
        self.positions = sinusoidal_positions(16, WIDTH, like=torch.empty(0))

    def forward(self, src, tgt):
        hidden = torch.ones(tgt.shape[1], tgt.shape[1], dtype=torch.bool).triu(1)
        padding = {"src_key_padding_mask": src == 0, "tgt_key_padding_mask": tgt == 0,
                   "memory_key_padding_mask": src == 0}  # fmt: skip
        src, tgt = (self.words(x) * math.sqrt(WIDTH) + self.positions[: x.shape[1]] for x in (src, tgt))
        return self.stacks(src, tgt, tgt_mask=hidden, **padding) @ self.words.weight.T


def reversal(steps):
    """Processor seconds of the training; infinite where it does not succeed."""
    generator, model = torch.Generator().manual_seed(0), _transformer()
    start = time.process_time()
    batches = (_digits(BATCH, generator) for _ in itertools.count())
    for _ in train(model, batches, steps=steps, rate=5e-3, warm_up=50):
        pass
    seconds = time.process_time() - start
    src, tgt = _digits(1000, generator)
    written = greedy_decode(model, src, bos_id=BEGIN, eos_id=END, max_len=14)
    right = written.shape == tgt.shape and (written == tgt).all(1).double().mean() >= 0.99
    return seconds if right else math.inf


def induction(seed, steps):
    """Processor seconds until it succeeds; infinite where it has not within so many steps."""
    rng = np.random.default_rng(seed)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = AttentionOnlyTransformer(64, 64, HEADS, 2, 64, positions="shortformer")
    adam = torch.optim.Adam(model.parameters(), lr=1e-2, fused=True)
    warm_up = torch.optim.lr_scheduler.LambdaLR(adam, lambda step: min(1, (step + 1) / 20))

    def texts(n):
        periods = rng.integers(8, 33, n)
        tokens = torch.from_numpy(repeated_tokens(n, 64, 64, periods, seed=rng))
        return tokens, torch.from_numpy(np.arange(63) >= periods[:, None])  # where a token has come before

    exam, known = texts(200)
    start = time.process_time()
    for step in range(1, steps + 1):
        tokens, _ = texts(BATCH)
        adam.zero_grad()
        nn.functional.cross_entropy(model(tokens)[:, :-1].mT, tokens[:, 1:]).backward()
        adam.step()
        warm_up.step()
        if step % 25 == 0:
            with torch.no_grad():
                right = (model(exam)[:, :-1].argmax(-1) == exam[:, 1:])[known].double().mean()
            if right >= 0.95:
                return time.process_time() - start
    return math.inf
