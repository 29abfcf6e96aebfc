"""numpy in the middle of torch, and the generators of Python and numpy."""

from __future__ import annotations

import random

import numpy as np
import torch

from programs import Case, program


def arrays(*sizes: int, count: int = 3, dtype: type = np.float32) -> list[tuple]:
    return [(np.random.rand(*sizes).astype(dtype),) for _ in range(count)]


def tensors(*sizes: int, count: int = 3) -> list[tuple]:
    return [(torch.randn(*sizes),) for _ in range(count)]


@program("numpy")
def normalised_image():
    mean, std = np.array([0.4, 0.5, 0.6], np.float32), np.array([0.2, 0.2, 0.3], np.float32)

    def f(image):
        image = (image - mean) / std
        return torch.from_numpy(np.ascontiguousarray(image.transpose(2, 0, 1))).unsqueeze(0)

    return Case(f, arrays(4, 5, 3))


@program("numpy")
def there_and_back():
    def f(x):
        a = x.numpy()
        a = np.where(a > 0, a, a * 0.1)
        return torch.from_numpy(a) * x

    return Case(f, tensors(3, 4))


@program("numpy", inductor=True)
def array_arithmetic():
    return Case(lambda a: np.sum(np.sin(a) * 2 + 1, axis=0) / a.shape[0], arrays(4, 3))


@program("numpy")
def array_indexing():
    def f(a):
        order = np.argsort(a[:, 0])
        return a[order][:2], a[a > 0.5].sum(), order.dtype.name

    return Case(f, arrays(4, 3))


@program("numpy")
def array_written():
    def f(a):
        a[0] = 0
        a += 1
        return a.mean()

    return Case(f, arrays(4, 3))


@program("numpy")
def array_scalars():
    def f(a):
        largest = a.max()
        return float(largest), type(largest).__name__, a / np.float64(2.0)

    return Case(f, arrays(4, dtype=np.float32))


@program("numpy")
def array_linear_algebra():
    def f(a):
        values, vectors = np.linalg.eigh(a @ a.T)
        return np.linalg.norm(a), values, np.abs(vectors), np.einsum("ij,kj->ik", a, a)

    return Case(f, arrays(3, 3, dtype=np.float64))


@program("numpy")
def array_integer_rules():
    return Case(lambda a: (a / 2, a // 2, (a % 3).dtype.name, np.mean(a)), [((np.arange(6) * n),) for n in (1, 2, 3)])


@program("numpy")
def moving_statistics():
    """A running mean in numpy beside a net in torch."""
    stats = {"mean": np.zeros(4), "count": 0}
    layer = torch.nn.Linear(4, 2)

    def f(a):
        stats["count"] += len(a)
        stats["mean"] = stats["mean"] + (a.mean(0) - stats["mean"]) * len(a) / stats["count"]
        return layer(torch.as_tensor(a - stats["mean"], dtype=torch.float32))

    return Case(f, arrays(5, 4, dtype=np.float64), state=[stats, layer])


@program("numpy")
def sampled_indices():
    def f(x):
        rows = np.random.randint(0, len(x), size=3)
        return x[torch.from_numpy(rows)]

    return Case(f, tensors(5, 2))


@program("random")
def random_of_python():
    return Case(lambda x: x * random.random() + random.randint(0, 5), tensors(3))


@program("random")
def random_choice():
    def f(x):
        return x + 1 if random.choice([True, False]) else x * 2

    return Case(f, tensors(3, count=5))


@program("random")
def random_shuffle():
    def f(x):
        order = list(range(len(x)))
        random.shuffle(order)
        return x[order]

    return Case(f, tensors(4, 2))


@program("random")
def random_of_numpy():
    return Case(
        lambda x: x + torch.as_tensor(np.random.randn(3), dtype=torch.float32) * np.random.uniform(), tensors(3)
    )


@program("random")
def numpy_generator():
    rng = np.random.default_rng(0)
    return Case(lambda x: x * float(rng.normal()), tensors(3))


@program("random", inductor=True)
def random_of_torch():
    def f(x):
        noise = torch.randn_like(x) * torch.rand(1)
        return torch.dropout(x + noise, 0.5, True), torch.randperm(4)

    return Case(f, tensors(3, 4))


@program("random")
def torch_generator():
    generator = torch.Generator().manual_seed(3)
    return Case(lambda x: x + torch.randn(3, generator=generator), tensors(3))


@program("random")
def seeded_inside():
    def f(x):
        torch.manual_seed(7)
        return x + torch.randn(3)

    return Case(f, tensors(3))


@program("random")
def forked_generator():
    def f(x):
        with torch.random.fork_rng():
            torch.manual_seed(1)
            noise = torch.randn(3)
        return x + noise + torch.randn(3)

    return Case(f, tensors(3))


@program("random")
def augmentation():
    """What a data pipeline draws for each batch: flips, crops, noise."""

    def f(image):
        if random.random() < 0.5:
            image = torch.flip(image, dims=[-1])
        top, left = np.random.randint(0, 3), random.randrange(3)
        return image[:, top : top + 4, left : left + 4] + 0.1 * torch.randn(1, 4, 4)

    return Case(f, tensors(1, 6, 6, count=5))
