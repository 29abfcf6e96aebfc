"""Operators that change shapes: views, copies of views, pieces and what puts them together."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from sweeps.table import sweep, tensors


@sweep(2, each=lambda n: (n, 4), trains=True, brute=0)
def flattened(x):
    return x.reshape(-1), x.flatten(), x.view(x.numel()), x.ravel()


@sweep(2, each=lambda n: (n, 4), trains=True, brute=0)
def reshaped_by_products(x):
    n, m = x.shape
    return x.view(n * m), x.view(n, 2, m // 2), x.reshape(n * 2, -1)


@sweep(2, *[(b, t, 6) for b, t in ((2, 5), (3, 4), (4, 7), (2, 3), (5, 2))], trains=True)
def merged_and_split_again(x):
    b, t, c = x.shape
    y = x.reshape(b * t, c) * 2
    return y.view(b, t, c), y.view(b, t, 2, -1).transpose(1, 2), y.reshape(b, -1)


@sweep(2, each=lambda n: (4 * n, 3), sizes=(2, 5, 3, 7, 4), trains=True)
def unflattened(x):
    return x.unflatten(0, (-1, 4)), x.view(4, -1, 3), x.reshape(-1, 2, 3)


@sweep(
    6,
    *[(n, 3) for n in (4, 8, 5, 12, 7, 16)],
    why="what does not divide raises, and may capture what comes before",
)
def view_that_may_not_divide(x):
    return (x + 1).view(-1, 4, 3)


@sweep(2, each=lambda n: (2, n, 4), trains=True, brute=0)
def permuted(x):
    return x.permute(2, 0, 1), x.transpose(0, 1), x.mT, x.movedim(0, -1), x.permute(2, 0, 1).contiguous()


@sweep(2, each=lambda n: (n, 4), trains=True, brute=0)
def squeezed(x):
    return x.unsqueeze(0).squeeze(0), x[None, :, None], x.unsqueeze(-1)


@sweep(3, *[(n, 4) for n in (5, 7, 1, 4, 1, 9)], trains=True, why="1 is squeezed away")
def squeezed_when_one(x):
    return x.squeeze(), x.squeeze(0)


@sweep(2, each=lambda n: (n, 1), trains=True, brute=0)
def expanded(x):
    return x.expand(-1, 3), x.expand(2, x.size(0), 4), x.expand(x.size(0), x.size(0))


@sweep(2, each=lambda n: ((1, 3), (n, 3)), inputs=tensors, trains=True, brute=0)
def expanded_as_another(x, y):
    return x.expand_as(y), x.expand(y.shape) + y, torch.broadcast_to(x, y.shape)


@sweep(2, each=lambda n: (n, 3), trains=True, brute=0)
def repeated(x):
    return x.repeat(2, 1), x.repeat(1, 2, 1), x.tile(2), x.repeat_interleave(2, dim=0)


@sweep(2, each=lambda n: (n,), trains=True, brute=0)
def repeated_as_often_as_it_is_long(x):
    return x.repeat(x.size(0)), x.unsqueeze(1).repeat(1, len(x))


@sweep(3, each=lambda n: (n + 2, 3), trains=True, brute=0, why="2 of 2 or 3 leaves 0 or 1")
def narrowed(x):
    return x.narrow(0, 1, x.size(0) - 2), x.narrow(0, 0, 2)


@sweep(4, each=lambda n: (n, 3), trains=True, brute=3, why="sizes below 3 are cut, and 1 may be left")
def sliced(x):
    return x[1:], x[:-1], x[:3], x[-3:], x[1:3]


@sweep(3, each=lambda n: (n, 3), trains=True, brute=1, why="half of 2 is 1")
def sliced_with_steps(x):
    return x[::2], x[1::2], x.flip(0)[::3]


@sweep(3, each=lambda n: (n, 3), trains=True, brute=1, why="half of 2 or 3 is 1")
def halves_by_slices(x):
    half = x.size(0) // 2
    return x[:half], x[half:], x[: half * 2].view(2, half, 3)


@sweep(2, each=lambda n: (n + 1, 3), trains=True, brute=0)
def rows_by_number(x):
    return x[0], x[-1], x[x.size(0) - 1], x.select(0, 0), x[..., 1]


@sweep(4, *[(n, 3) for n in (5, 7, 2, 4, 3, 9)], why="the row that is missing raises")
def row_that_may_be_missing(x):
    return (x * 2)[3]


@sweep(2, *[(n, 4) for n in (6, 9, 7, 12, 8)], trains=True)
def two_chunks(x):
    return x.chunk(2)


@sweep(3, *[(n, 4) for n in (6, 9, 12, 4, 15, 18)], why="three chunks or two")
def three_chunks(x):
    return x.chunk(3)


@sweep(2, each=lambda n: (n, 6), trains=True, brute=0)
def chunks_of_the_fixed_dimension(x):
    a, b, c = x.chunk(3, dim=-1)
    return a * b + c, torch.tensor_split(x, 2, dim=1)


@sweep(4, *[(n, 3) for n in (5, 6, 9, 10, 5, 13, 14)], why="as many pieces: 3, 5, 7")
def split_into_pieces_of_two(x):
    return x.split(2)


@sweep(2, each=lambda n: (n + 2, 3), trains=True, brute=1, why="nothing is left of 2, 1 of 3")
def split_by_sizes(x):
    return x.split([2, x.size(0) - 2])


@sweep(2, each=lambda n: (n, 6), trains=True, brute=0)
def split_of_the_fixed_dimension(x):
    q, k, v = x.split(2, dim=1)
    return q @ k.T, v


@sweep(4, *[(n, 3) for n in (2, 3, 4, 2, 5, 3)], why="as many results as rows")
def unbound(x):
    return x.unbind(0), [row + 1 for row in x]


@sweep(2, each=lambda n: (n, 3), trains=True, brute=0)
def stacked(x):
    return torch.stack([x, x + 1]), torch.stack((x, x), dim=1), torch.vstack([x, x])


@sweep(2, *[((n, 3), (m, 3)) for n, m in ((4, 6), (5, 3), (7, 7), (2, 9), (6, 2))], inputs=tensors, trains=True)
def joined(x, y):
    return torch.cat([x, y]), torch.cat([x, y, x]).sum(1)


@sweep(2, each=lambda n: ((n, 3), (2, 3)), inputs=tensors, trains=True, brute=0)
def joined_with_a_fixed_part(x, y):
    return torch.cat([x, y]), torch.cat((y, x), dim=0)


@sweep(2, each=lambda n: (n, 3), trains=True, brute=1, why="without rows there is nothing to join")
def joined_to_itself_and_cut(x):
    y = torch.cat([x, x])
    return y[: x.size(0)], y[x.size(0) :]


@sweep(2, each=lambda n: (2, n), trains=True, brute=0)
def padded(x):
    return F.pad(x, (1, 2)), F.pad(x, (0, 1, 2, 0), value=3)


@sweep(3, *[(2, n) for n in (5, 11, 8, 17, 3, 16, 20)], trains=True, why="nothing to pad, or something")
def padded_to_a_multiple(x):
    return F.pad(x, (0, -x.size(1) % 8)).view(2, -1, 8)


@sweep(3, *[(2, n) for n in (5, 7, 9, 4, 12, 10, 3)], trains=True, why="cut or padded")
def padded_to_eight(x):
    return F.pad(x, (0, 8 - x.size(1))) if x.size(1) < 8 else x[:, :8]


@sweep(2, *[(2, n) for n in (5, 7, 9, 4, 12)], trains=True)
def padded_by_reflection(x):
    return F.pad(x, (2, 1), mode="reflect"), F.pad(x, (1, 1), mode="circular")


@sweep(2, each=lambda n: (n, 3), trains=True, brute=0)
def rolled_and_flipped(x):
    return x.roll(1, 0), x.flip(0, 1), x.rot90()


@sweep(2, *[(2, n) for n in (5, 7, 9, 4, 12)], trains=True)
def windows_by_unfold(x):
    return x.unfold(1, 3, 1), x.unfold(1, 2, 1).mean(-1)


@sweep(2, each=lambda n: (n, n), trains=True, brute=0)
def triangles(x):
    return x.tril(), x.triu(1), x.tril(-1) + x.triu()


@sweep(2, *[(n, n) for n in (4, 5, 7, 3)], trains=True)
def diagonals(x):
    return x.diagonal(), x.diag(), torch.diag_embed(x[0]), x.trace()


@sweep(2, each=lambda n: (n, 3), brute=0)
def strided_by_hand(x):
    return x.as_strided((x.size(0), 2), (3, 1)), x.as_strided((x.size(0),), (x.stride(0),))


@sweep(2, each=lambda n: (n, 3), trains=True)
def layout_asked_for(x):
    y = (x + 1).t()
    return y.stride(), y.is_contiguous(), x.stride(0), x.contiguous() * 2


@sweep(4, each=lambda n: (n, 3), why="two parts")
def identity_of_what_contiguous_gives(x):
    return x.contiguous() is x, x.t().contiguous() is x, x.storage_offset(), x * 2


@sweep(2, *[(n, m) for n, m in ((4, 6), (6, 8), (12, 10), (8, 4))], trains=True)
def space_to_depth(x):
    h, w = x.shape
    return x.view(h // 2, 2, w // 2, 2).permute(0, 2, 1, 3).reshape(h // 2 * (w // 2), 4)


@sweep(2, *[(2, h, w, 3) for h, w in ((8, 12), (12, 8), (16, 20), (8, 16))], trains=True)
def partitioned_into_windows(x):
    b, h, w, c = x.shape
    y = x.view(b, h // 4, 4, w // 4, 4, c).permute(0, 1, 3, 2, 4, 5).reshape(-1, 16, c)
    return y, y.view(b, h // 4, w // 4, 4, 4, c).permute(0, 1, 3, 2, 4, 5).reshape(b, h, w, c)


@sweep(2, *[(b, t, 8) for b, t in ((2, 5), (3, 4), (4, 7), (2, 3))], trains=True)
def heads(x):
    y = x.view(*x.shape[:-1], 2, -1).transpose(1, 2)
    return y, y.transpose(1, 2).reshape(x.shape)


@sweep(2, *[(a, b, c) for a, b, c in ((2, 3, 4), (3, 4, 5), (5, 2, 3), (4, 4, 4))], trains=True)
def all_dimensions_at_once(x):
    a, b, c = x.shape
    return x.reshape(a * b, c), x.reshape(a, b * c), x.permute(2, 1, 0).reshape(c, -1), x.transpose(0, 2)


@sweep(2, *[((n, 3), (m, 3)) for n, m in ((4, 6), (5, 3), (7, 7), (2, 9))], inputs=tensors, trains=True)
def meshes(x, y):
    return torch.meshgrid(x[:, 0], y[:, 0], indexing="ij"), torch.cdist(x, y), torch.cartesian_prod(x[:, 0], y[:, 0])


@sweep(2, each=lambda n: (n, 3), brute=0)
def counts_in_bins(x):
    """As routers of experts count: the number of bins is no size of the tensor."""
    return x.histc(4, -1, 1), x.histc(3)
