"""Whole little programs of kinds that papers have: policies, detection, routing, loops over data, decoding."""

from __future__ import annotations

import collections

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.distributions import Bernoulli, Categorical, Normal, kl_divergence

from programs import Case, program


@program("research")
def policy_gradient_episode():
    """An episode in a numpy environment, and the update behind it."""
    policy = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(policy.parameters(), lr=0.01)

    def f(state):
        rewards, log_probs = [], []
        for _ in range(4):
            choice = Categorical(logits=policy(torch.as_tensor(state, dtype=torch.float32)))
            action = choice.sample()
            log_probs.append(choice.log_prob(action))
            state = state * 0.9 + np.array([0.1, -0.1, 0.2, 0.0]) * (2 * action.item() - 1)
            rewards.append(float(-np.abs(state).sum()))
        returns = np.cumsum(np.array(rewards)[::-1])[::-1].copy()
        loss = -(torch.stack(log_probs) * torch.as_tensor(returns, dtype=torch.float32)).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach(), returns

    return Case(f, [(np.random.randn(4),) for _ in range(3)], state=policy)


@program("research")
def q_learning_step():
    net, target = nn.Linear(4, 2), nn.Linear(4, 2)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    memory: collections.deque = collections.deque(maxlen=8)

    def f(state, action, reward, after):
        memory.append((state, action, reward, after))
        states, actions, rewards, afters = (torch.stack(list(part)) for part in zip(*memory))
        with torch.no_grad():
            wanted = rewards + 0.9 * target(afters).max(1).values
        got = net(states).gather(1, actions[:, None]).squeeze(1)
        loss = F.smooth_l1_loss(got, wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for ours, theirs in zip(target.parameters(), net.parameters()):
                ours.mul_(0.9).add_(theirs, alpha=0.1)
        return loss.detach()

    calls = [(torch.randn(4), torch.tensor(n % 2), torch.randn(()), torch.randn(4)) for n in range(4)]
    return Case(f, calls, state=[net, target])


@program("research")
def advantage_estimates():
    def f(rewards, values, done):
        advantage, out = torch.zeros(()), []
        for t in reversed(range(len(rewards))):
            following = values[t + 1] * (1 - done[t])
            advantage = rewards[t] + 0.9 * following - values[t] + 0.8 * (1 - done[t]) * advantage
            out.insert(0, advantage)
        return torch.stack(out)

    return Case(f, [(torch.randn(5), torch.randn(6), torch.randint(0, 2, (5,)).float()) for _ in range(3)])


def suppressed(boxes, scores):
    """What detection heads do behind the network: boxes above a threshold, and suppression in a Python loop."""
    keep = scores > 0.3
    boxes, scores = boxes[keep], scores[keep]
    order, chosen = scores.argsort(descending=True), []
    while order.numel() > 0:
        best = order[0]
        chosen.append(best)
        if order.numel() == 1:
            break
        rest = order[1:]
        low = torch.maximum(boxes[best, :2], boxes[rest, :2])
        high = torch.minimum(boxes[best, 2:], boxes[rest, 2:])
        overlap = (high - low).clamp(min=0).prod(1)
        area = (boxes[:, 2:] - boxes[:, :2]).prod(1)
        order = rest[overlap / (area[best] + area[rest] - overlap) < 0.5]
    return boxes[torch.stack(chosen)] if chosen else boxes


@program("research")
def detection_head():
    """Sizes and branches by data."""

    def make():
        low = torch.rand(6, 2)
        return torch.cat([low, low + torch.rand(6, 2)], 1), torch.rand(6)

    return Case(suppressed, [make() for _ in range(3)])


@program("research", inductor=True)
def anchors_and_masks():
    """Detection without choices by data: masks in the place of indices."""
    head = nn.Conv2d(4, 5, 1)

    def f(features, wanted):
        out = head(features).permute(0, 2, 3, 1).flatten(1, 2)
        score, box = out[..., 0], out[..., 1:]
        positive = (wanted[..., 0] > 0).float()
        loss = F.binary_cross_entropy_with_logits(score, positive)
        return loss + (
            F.smooth_l1_loss(box, wanted[..., 1:], reduction="none").sum(-1) * positive
        ).sum() / positive.sum().clamp(min=1)

    return Case(f, [(torch.randn(2, 4, 3, 3), torch.randn(2, 9, 5)) for _ in range(3)], state=head)


class Experts(nn.Module):
    def __init__(self, count: int = 3):
        super().__init__()
        self.router = nn.Linear(4, count)
        self.experts = nn.ModuleList(nn.Linear(4, 4) for _ in range(count))


@program("research")
def routing_by_index():
    """Each expert gets its own tokens: sizes by data."""
    model = Experts()

    def f(x):
        weights, chosen = model.router(x).softmax(-1).topk(2, dim=-1)
        out = torch.zeros_like(x)
        for number, expert in enumerate(model.experts):
            rows, places = torch.where(chosen == number)
            if rows.numel() == 0:
                continue
            out.index_add_(0, rows, expert(x[rows]) * weights[rows, places, None])
        return out

    return Case(f, [(torch.randn(5, 4),) for _ in range(3)], state=model)


@program("research", inductor=True)
def routing_by_mask():
    model = Experts()

    def f(x):
        weights, chosen = model.router(x).softmax(-1).topk(2, dim=-1)
        gate = torch.zeros(len(x), len(model.experts)).scatter(1, chosen, weights)
        out = sum(gate[:, number, None] * expert(x) for number, expert in enumerate(model.experts))
        load = gate.mean(0)
        return out, (load * load).sum()

    return Case(f, [(torch.randn(5, 4),) for _ in range(3)], state=model)


@program("research")
def loop_until_small():
    def f(x):
        steps = 0
        while x.norm() > 0.5:
            x = x * 0.7
            steps += 1
        return x, steps

    return Case(f, [(torch.ones(3) * n,) for n in (1.0, 2.0, 1.5)])


@program("research")
def adaptive_depth():
    """A recurrent block that stops by what it has computed."""
    cell, halt = nn.Linear(4, 4), nn.Linear(4, 1)

    def f(x):
        total, depth = torch.zeros(()), 0
        while depth < 5 and total < 1:
            x = torch.tanh(cell(x))
            total = total + torch.sigmoid(halt(x)).mean()
            depth += 1
        return x, depth

    return Case(f, [(torch.randn(2, 4),) for _ in range(3)], state=[cell, halt])


@program("research")
def beam_search():
    table = torch.randn(7, 7)

    def f(start, width):
        beams = [([start], 0.0)]
        for _ in range(3):
            grown = []
            for tokens, score in beams:
                values, following = F.log_softmax(table[tokens[-1]], 0).topk(width)
                grown += [([*tokens, t], score + v) for v, t in zip(values.tolist(), following.tolist())]
            beams = sorted(grown, key=lambda beam: -beam[1])[:width]
        return beams[0]

    return Case(f, [(1, 2), (3, 2), (4, 3)])


@program("research")
def greedy_decoding():
    net = nn.Sequential(nn.Embedding(7, 8), nn.Flatten(0), nn.Linear(8, 7))

    def f(token):
        out = [token]
        for _ in range(5):
            token = net(token).argmax(-1, keepdim=True)
            out.append(token)
            if token.item() == 0:
                break
        return torch.cat(out)

    return Case(f, [(torch.tensor([n]),) for n in (1, 2, 3)])


@program("research", inductor=True)
def attention_with_a_cache():
    q, k, v = (nn.Linear(4, 4) for _ in range(3))

    def f(x, keys, values, position):
        keys, values = keys.clone(), values.clone()
        keys[:, position], values[:, position] = k(x), v(x)
        seen = torch.arange(keys.shape[1]) <= position
        scores = (q(x)[:, None] * keys).sum(-1).masked_fill(~seen, float("-inf"))
        return (scores.softmax(-1)[..., None] * values).sum(1), keys, values

    calls = [(torch.randn(2, 4), torch.zeros(2, 6, 4), torch.zeros(2, 6, 4), torch.tensor(n)) for n in range(3)]
    return Case(f, calls, state=[q, k, v], backward=False)


@program("research", inductor=True)
def variational_autoencoder():
    encoder, decoder = nn.Linear(6, 4), nn.Linear(2, 6)

    def f(x):
        mean, log_var = encoder(x).chunk(2, -1)
        z = mean + torch.randn_like(mean) * (0.5 * log_var).exp()
        rebuilt = F.binary_cross_entropy_with_logits(decoder(z), x.sigmoid(), reduction="sum")
        return rebuilt - 0.5 * (1 + log_var - mean.square() - log_var.exp()).sum()

    return Case(f, [(torch.randn(3, 6),) for _ in range(3)], state=[encoder, decoder])


@program("research")
def distributions():
    net = nn.Linear(4, 4)

    def f(x):
        mean, scale = net(x).chunk(2, -1)
        q = Normal(mean, F.softplus(scale) + 0.1)
        z = q.rsample()
        return q.log_prob(z).sum(-1) - kl_divergence(q, Normal(0.0, 1.0)).sum(-1), Bernoulli(logits=z).sample()

    return Case(f, [(torch.randn(3, 4),) for _ in range(3)], state=net)


@program("research", inductor=True)
def diffusion_step():
    net = nn.Sequential(nn.Linear(7, 8), nn.SiLU(), nn.Linear(8, 6))
    bars = torch.linspace(0.99, 0.1, 10)

    def f(x):
        t = torch.randint(0, 10, (len(x),))
        noise = torch.randn_like(x)
        bar = bars[t][:, None]
        noisy = bar.sqrt() * x + (1 - bar).sqrt() * noise
        return F.mse_loss(net(torch.cat([noisy, t[:, None] / 10], 1)), noise)

    return Case(f, [(torch.randn(4, 6),) for _ in range(3)], state=net)


@program("research", inductor=True)
def vector_quantiser():
    codes = nn.Embedding(5, 4)

    def f(x):
        nearest = torch.cdist(x, codes.weight).argmin(-1)
        chosen = codes(nearest)
        loss = F.mse_loss(chosen, x.detach()) + 0.25 * F.mse_loss(chosen.detach(), x)
        return x + (chosen - x).detach(), loss, nearest

    return Case(f, [(torch.randn(6, 4, requires_grad=True),) for _ in range(3)], state=codes)


@program("research")
def contrastive_queue():
    """A queue of keys and a pointer, both buffers of the module."""

    class Momentum(nn.Module):
        def __init__(self):
            super().__init__()
            self.query, self.key = nn.Linear(4, 3), nn.Linear(4, 3)
            self.register_buffer("queue", F.normalize(torch.randn(3, 8), dim=0))
            self.register_buffer("pointer", torch.zeros(1, dtype=torch.long))

        def forward(self, a, b):
            q = F.normalize(self.query(a), dim=1)
            with torch.no_grad():
                for ours, theirs in zip(self.key.parameters(), self.query.parameters()):
                    ours.mul_(0.9).add_(theirs, alpha=0.1)
                k = F.normalize(self.key(b), dim=1)
            logits = torch.cat([(q * k).sum(1, keepdim=True), q @ self.queue.clone()], 1)
            at = int(self.pointer)
            self.queue[:, at : at + len(k)] = k.t()
            self.pointer[0] = (at + len(k)) % self.queue.shape[1]
            return F.cross_entropy(logits / 0.1, torch.zeros(len(a), dtype=torch.long))

    model = Momentum()
    return Case(model, [(torch.randn(2, 4), torch.randn(2, 4)) for _ in range(4)], state=model)


@program("research", inductor=True)
def conditional_random_field():
    transitions = nn.Parameter(torch.randn(3, 3))

    def f(scores):
        alpha = scores[0]
        for score in scores[1:]:
            alpha = torch.logsumexp(alpha[:, None] + transitions, 0) + score
        return torch.logsumexp(alpha, 0)

    return Case(f, [(torch.randn(4, 3, requires_grad=True),) for _ in range(3)], state=transitions)


@program("research")
def recurrent_with_packing():
    gru = nn.GRU(3, 4, batch_first=True)

    def f(x, lengths):
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        out, last = gru(packed)
        return nn.utils.rnn.pad_packed_sequence(out, batch_first=True)[0], last

    return Case(
        f, [(torch.randn(3, 5, 3), torch.tensor(lengths)) for lengths in ([5, 3, 1], [2, 5, 4], [5, 3, 1])], state=gru
    )


@program("research")
def graph_messages():
    """Sums over edges: scatter and sizes by data."""
    layer = nn.Linear(4, 4)

    def f(x, edges):
        source, target = edges
        messages = torch.relu(layer(x))[source]
        degree = torch.bincount(target, minlength=len(x)).clamp(min=1)
        return torch.zeros_like(x).index_add(0, target, messages) / degree[:, None]

    return Case(f, [(torch.randn(5, 4), torch.randint(0, 5, (2, 7))) for _ in range(3)], state=layer)


@program("research", inductor=True)
def gumbel_and_top():
    def f(logits):
        soft = F.gumbel_softmax(logits, tau=0.5, hard=True)
        return soft, torch.multinomial(logits.softmax(-1), 2)

    return Case(f, [(torch.randn(3, 5, requires_grad=True),) for _ in range(3)])


@program("research")
def tree_of_tensors():
    """A recursive net over Python trees."""
    join = nn.Linear(8, 4)

    def embed(tree):
        if isinstance(tree, torch.Tensor):
            return tree
        left, right = tree
        return torch.tanh(join(torch.cat([embed(left), embed(right)])))

    def leaf():
        return torch.randn(4)

    calls = [((leaf(), (leaf(), leaf())),), ((leaf(), (leaf(), leaf())),), (((leaf(), leaf()), (leaf(), leaf())),)]
    return Case(lambda tree: embed(tree), calls, state=join)


@program("research")
def gradients_by_layer():
    """Statistics of gradients behind a backward pass, as Python numbers."""
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))

    def f(x):
        model.zero_grad()
        model(x).square().mean().backward()
        return {name: (p.grad.norm().item(), p.grad.abs().max().item()) for name, p in model.named_parameters()}

    return Case(f, [(torch.randn(3, 4),) for _ in range(3)])


@program("research")
def checked_values():
    """A check of values that raises in the second call."""

    def f(x):
        y = x.sin()
        if not torch.isfinite(x).all():
            raise FloatingPointError(f"{int((~torch.isfinite(x)).sum())} values are not finite")
        return y * 2

    return Case(f, [(torch.ones(3),), (torch.tensor([1.0, float("nan"), 2.0]),), (torch.zeros(3),)])


@program("research")
def shapes_that_do_not_fit():
    w = torch.randn(4, 2)
    return Case(lambda x: (x + 1) @ w, [(torch.randn(3, 4),), (torch.randn(3, 5),), (torch.randn(2, 4),)])


@program("research")
def generator_of_batches():
    layer = nn.Linear(4, 2)

    def parts(x):
        for start in range(0, len(x), 2):
            yield x[start : start + 2]

    def f(x):
        return torch.cat([layer(part).relu() for part in parts(x)])

    return Case(f, [(torch.randn(n, 4),) for n in (5, 5, 6)], state=layer)


@program("research")
def model_with_cached_masks():
    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.masks: dict = {}
            self.mix = nn.Linear(4, 4)

        def mask(self, length):
            if length not in self.masks:
                self.masks[length] = torch.ones(length, length).tril()
            return self.masks[length]

        def forward(self, x):
            scores = self.mix(x) @ x.transpose(-1, -2)
            return scores.masked_fill(self.mask(x.shape[1]) == 0, float("-inf")).softmax(-1) @ x

    model = Attention()
    return Case(model, [(torch.randn(2, n, 4),) for n in (3, 3, 5, 3)], state=[model, model.masks])


@program("research")
def nested_containers():
    """Inputs and results as dataclasses, named tuples and dictionaries."""
    import dataclasses

    @dataclasses.dataclass
    class Batch:
        x: torch.Tensor
        extra: dict

    Out = collections.namedtuple("Out", "logits parts")

    def f(batch):
        y = batch.x * batch.extra["scale"]
        return Out(y.sum(-1), {"first": y[0], "rest": [y[1:], batch.extra.get("none")]})

    return Case(f, [(Batch(torch.randn(3, 4), {"scale": torch.tensor(n)}),) for n in (1.0, 2.0, 3.0)])
