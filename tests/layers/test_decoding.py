import itertools

import pytest
import torch

from attnlib import Transformer, beam_decode, greedy_decode

BOS, EOS = 1, 2


@pytest.fixture(autouse=True)
def a_random_state_of_its_own():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        yield


def model(words=7, *, seed=0, spread=0.5, **settings):
    torch.manual_seed(seed)
    sizes = {"d_model": 8, "num_heads": 2, "num_layers": 1, "d_ff": 16, "dropout": 0.0, "tied": False}
    made = Transformer(11, words, **sizes | settings, dtype=torch.float64)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(spread * torch.randn_like(parameter))
    return made


def log_prob(ours, src, target):
    """Of a target that begins with BOS, by one pass without a cache."""
    with torch.no_grad():
        logs = ours(src[None], torch.tensor([target[:-1]])).log_softmax(-1)[0]
    return float(logs[torch.arange(len(target) - 1), torch.tensor(target[1:])].sum())


def until_the_end(row):
    row = row.tolist()
    return row[: row.index(EOS) + 1] if EOS in row else row


@pytest.mark.parametrize("seed", range(6))
def test_each_greedy_word_is_the_likeliest_after_those_before_it(seed):
    ours = model(seed=seed, num_layers=2)
    src = torch.tensor([[3, 4, 5, 0], [9, 0, 0, 0], [8, 7, 6, 5]])
    tokens = greedy_decode(ours, src, bos_id=BOS, eos_id=EOS, max_len=9)
    assert tokens.shape[1] == 9 or (tokens == EOS).any(1).all()
    for row, source in zip(tokens, src, strict=True):
        written = until_the_end(row)
        assert (row[len(written) :] == 0).all()
        for n in range(1, len(written)):
            logits = ours(source[None], torch.tensor([written[:n]]))[0, -1]
            logits[0] = -torch.inf
            assert written[n] == int(logits.argmax())


def test_the_seeds_above_end_early_and_late():
    src = torch.tensor([[3, 4, 5, 0], [9, 0, 0, 0], [8, 7, 6, 5]])
    lengths = {len(until_the_end(row)) for seed in range(6) for row in
               greedy_decode(model(seed=seed, num_layers=2), src, bos_id=BOS, eos_id=EOS, max_len=9)}
    assert 9 in lengths and min(lengths) < 7


@pytest.mark.parametrize("beam", [0, 1, 3])
@pytest.mark.parametrize("side", ["left", "right"])
def test_a_batch_gives_each_sentence_what_it_gets_alone(side, beam):
    sources = [[3, 4, 5], [9], [8, 7, 6, 5, 10]]
    rows = [[0] * (6 - len(s)) + s if side == "left" else s + [0] * (6 - len(s)) for s in sources]
    for seed in range(3):
        ours = model(seed=seed)
        decode = greedy_decode if not beam else lambda *a, **k: beam_decode(*a, beam_size=beam, **k)[0]
        together = decode(ours, torch.tensor(rows), bos_id=BOS, eos_id=EOS, max_len=8)
        for row, source in zip(together, sources, strict=True):
            alone = decode(ours, torch.tensor([source]), bos_id=BOS, eos_id=EOS, max_len=8)
            assert until_the_end(row) == until_the_end(alone[0])


@pytest.mark.parametrize("seed", range(6))
def test_a_beam_of_one_is_greedy(seed):
    ours, src = model(seed=seed), torch.randint(3, 11, (5, 4))
    greedy = greedy_decode(ours, src, bos_id=BOS, eos_id=EOS, max_len=7)
    tokens, worth = beam_decode(ours, src, bos_id=BOS, eos_id=EOS, beam_size=1, max_len=7)
    assert torch.equal(tokens, greedy)
    for row, source, value in zip(tokens, src, worth, strict=True):
        written = until_the_end(row)
        penalty = ((5 + len(written) - 1) / 6) ** 0.6
        assert float(value) == pytest.approx(log_prob(ours, source, written) / penalty)


@pytest.mark.parametrize("length_penalty", [0, 0.6, 2])
@pytest.mark.parametrize("seed", range(3))
def test_a_beam_as_wide_as_all_there_is_finds_the_best_of_all_sentences(seed, length_penalty):
    ours, src = model(5, seed=seed), torch.randint(3, 11, (2, 3))
    tokens, worth = beam_decode(ours, src, bos_id=BOS, eos_id=EOS, beam_size=128, max_len=5,
                                length_penalty=length_penalty)  # fmt: skip
    words = [1, 3, 4]  # neither the padding nor the end
    for row, source, value in zip(tokens, src, worth, strict=True):
        every = [[BOS, *middle, EOS] for n in range(4) for middle in itertools.product(words, repeat=n)]
        values = [log_prob(ours, source, s) / ((5 + len(s) - 1) / 6) ** length_penalty for s in every]
        best = max(range(len(every)), key=values.__getitem__)
        assert until_the_end(row) == every[best] and float(value) == pytest.approx(values[best])


def beam_by_hand(ours, source, k, max_len, length_penalty):
    """The same search one sentence at a time, on lists, without a cache."""
    beam, best = [(0.0, [BOS])], (-float("inf"), None)
    for n in range(1, max_len):
        with torch.no_grad():
            starts = torch.tensor([start for _, start in beam])
            rows = ours(source.expand(len(beam), -1), starts)[:, -1].log_softmax(-1).tolist()
        found = [(score + row[w], [*start, w]) for (score, start), row in zip(beam, rows, strict=True)
                 for w in range(1, len(row))]  # fmt: skip
        found = sorted(found, key=lambda pair: -pair[0])[:k]
        ended = [(score / ((5 + n) / 6) ** length_penalty, s) for score, s in found if s[-1] == EOS]
        best = max([best, *ended], key=lambda pair: pair[0])
        most = ((5 + max_len - 1) / 6) ** length_penalty
        beam = [(score, s) for score, s in found if s[-1] != EOS and score / most > best[0]]
        if not beam:
            break
    return best[1] or max(beam, key=lambda pair: pair[0])[1]


@pytest.mark.parametrize("k, length_penalty", [(2, 0.6), (3, 0), (4, 1.5)])
def test_agrees_with_the_search_done_by_hand(k, length_penalty):
    written = set()
    for seed in range(4):
        ours, src = model(seed=seed), torch.randint(3, 11, (3, 4))
        tokens, _ = beam_decode(ours, src, bos_id=BOS, eos_id=EOS, beam_size=k, max_len=7,
                                length_penalty=length_penalty)  # fmt: skip
        for row, source in zip(tokens, src, strict=True):
            wanted = beam_by_hand(ours, source, k, 7, length_penalty)
            assert until_the_end(row) == wanted
            written.add(len(wanted))
    assert len(written) > 2


def same_each_time(*logits, pad_id=0):
    """A model that has the same scores for every next word."""
    ours = model(len(logits), pad_id=pad_id)
    torch.nn.init.zeros_(ours.output.weight)
    with torch.no_grad():
        ours.output.bias.copy_(torch.tensor(logits))
    return ours


def test_padding_is_never_chosen_and_what_does_not_end_is_cut():
    logits = torch.tensor([9.0, 0, -50, 0, 0, 3, 0])  # padding is likeliest, the end never
    ours, src, wanted = same_each_time(*logits.tolist()), torch.tensor([[3, 4]]), [[BOS, 5, 5, 5]]
    assert greedy_decode(ours, src, bos_id=BOS, eos_id=EOS, max_len=4).tolist() == wanted
    assert greedy_decode(ours, src, bos_id=BOS, max_len=4).tolist() == wanted
    tokens, worth = beam_decode(ours, src, bos_id=BOS, eos_id=EOS, beam_size=2, max_len=4)
    assert tokens.tolist() == wanted
    each = float(logits.log_softmax(-1)[5])
    assert float(worth) == pytest.approx(3 * each / (8 / 6) ** 0.6, rel=1e-5)


def test_nothing_is_written_behind_an_end_however_much_length_is_worth():
    logs = [-50.0, -4.0, float(torch.tensor(0.9).log()), -4.0, -4.0]
    ours = same_each_time(*logs)
    tokens, worth = beam_decode(
        ours, torch.tensor([[3]]), bos_id=BOS, eos_id=EOS, beam_size=1, max_len=9, length_penalty=6
    )
    assert tokens.tolist() == [[BOS, EOS]]
    assert float(worth) == pytest.approx(float(torch.tensor(logs).log_softmax(-1)[EOS]))


def test_a_beginning_that_may_win_by_its_length_goes_on():
    ours = same_each_time(-50.0, -50.0, 0.0, 0.0)  # the end and word 3 are equally likely
    for length_penalty, wanted in ((0.6, [BOS, EOS]), (6, [BOS, 3, 3, 3, EOS])):
        tokens, _ = beam_decode(ours, torch.tensor([[3]]), bos_id=BOS, eos_id=EOS, beam_size=2, max_len=5,
                                length_penalty=length_penalty)  # fmt: skip
        assert tokens.tolist() == [wanted]


def test_stops_when_no_beginning_can_win_any_more(monkeypatch):
    ours, passes = same_each_time(-50.0, 0.0, 4.0, 0.0, 0.0), []
    decode = ours.decode
    monkeypatch.setattr(ours, "decode", lambda *a, **k: passes.append(1) or decode(*a, **k))
    tokens, _ = beam_decode(ours, torch.tensor([[3], [4]]), bos_id=BOS, eos_id=EOS, max_len=30)
    assert tokens.tolist() == [[BOS, EOS]] * 2 and len(passes) == 1


@pytest.mark.parametrize("seed", [2, 4])
def test_without_padding_the_end_fills_up(seed):
    ours, src = model(seed=seed, pad_id=None), torch.tensor([[3, 4, 5], [0, 0, 9], [1, 0, 2]])
    for tokens in (greedy_decode(ours, src, bos_id=BOS, eos_id=EOS, max_len=9),
                   beam_decode(ours, src, bos_id=BOS, eos_id=EOS, max_len=9)[0]):  # fmt: skip
        for row in tokens:
            assert (row[len(until_the_end(row)) :] == EOS).all()
        assert tokens.shape[1] == max(len(until_the_end(row)) for row in tokens)
        assert tokens.shape[1] == 9 or (tokens == EOS).any(1).all()


def test_the_model_is_left_as_it_was():
    ours = model(dropout=0.5)
    ours.encoder.eval()
    for decode in (greedy_decode, beam_decode):
        tokens = [decode(ours, torch.tensor([[3, 4]]), bos_id=BOS, eos_id=EOS, max_len=7) for _ in range(4)]
        rows = [t[0] if decode is beam_decode else t for t in tokens]
        assert all(torch.equal(rows[0], row) for row in rows)
        assert ours.training and ours.decoder.training and not ours.encoder.training
        assert torch.is_grad_enabled() and not rows[0].requires_grad


def test_a_limit_of_one_is_the_beginning():
    ours, src = model(), torch.tensor([[3, 4], [5, 6]])
    assert greedy_decode(ours, src, bos_id=BOS, eos_id=EOS, max_len=1).tolist() == [[BOS], [BOS]]
    assert beam_decode(ours, src, bos_id=BOS, eos_id=EOS, max_len=1)[0].tolist() == [[BOS], [BOS]]


@pytest.mark.parametrize(
    "settings, error, says",
    [
        (dict(bos_id=7), ValueError, r"bos_id must be a word, 0 .. 6; got 7"),
        (dict(bos_id=0), ValueError, "bos_id must not be the padding, 0"),
        (dict(eos_id=-1), ValueError, "eos_id must be a word"),
        (dict(eos_id=2.0), TypeError, "eos_id must be one integer"),
        (dict(max_len=0), ValueError, "max_len must be at least 1"),
    ],
)
def test_errors_name_the_argument(settings, error, says):
    for decode in (greedy_decode, beam_decode):
        with pytest.raises(error, match=says):
            decode(model(), torch.tensor([[3]]), **dict(bos_id=BOS, eos_id=EOS) | settings)


@pytest.mark.parametrize(
    "settings, error, says",
    [
        (dict(eos_id=None), TypeError, "eos_id must be one integer: without it no sentence ends"),
        (dict(beam_size=0), ValueError, "beam_size must be at least 1"),
        (dict(length_penalty=-1), ValueError, "length_penalty must be at least 0; got -1"),
        (dict(length_penalty="a"), TypeError, "length_penalty must be a number; got 'a'"),
    ],
)
def test_errors_of_the_beam_name_the_argument(settings, error, says):
    with pytest.raises(error, match=says):
        beam_decode(model(), torch.tensor([[3]]), **dict(bos_id=BOS, eos_id=EOS) | settings)
