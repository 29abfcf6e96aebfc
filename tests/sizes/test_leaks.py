"""Expressions over the sizes of a tensor: no hint of an open size leaks into a result, in whatever way it is read."""

from __future__ import annotations

import collections
import copy
import dataclasses
import functools
import itertools
import json
import math
import operator
import pickle

import pytest
import torch
import torch.nn.functional as F

import pellucid
from support import Counting

SIZES = (5, 7, 4, 2, 9, 6, 5, 1, 0, 3, 8)

EXPRESSIONS = """
x.data_ptr()%1
x.tolist()
len(x.tolist())
repr(x.shape)
f"{x.shape}"
x.clone().set_(torch.zeros(4)).shape
x.clone().set_(x).shape
x.clone().untyped_storage().nbytes()
(x*2).untyped_storage().nbytes()
(x*2).untyped_storage().size()
(x*2).storage().size()
x[1:].untyped_storage().nbytes()
x.clone().set_(x.clone().untyped_storage(), 0, (2,)).shape
x.clone().set_(x.clone().storage(), 1, (1,2),(2,1)).shape
x.shape.count(3)
x.shape.index(x.shape[0])
x.shape.__contains__(5)
5 in x.shape
x.shape[0] in x.shape
x.shape[::-1]
x.shape[-2:]
x.shape + (1,)
(1,) + x.shape
x.shape * 2
x.shape.__add__((1,))
x.shape.__mul__(2)
x.shape.__eq__((5,3))
x.shape == (5,3)
x.shape != torch.Size((5,3))
x.shape < (6,)
x.shape >= torch.Size([5])
(5,3) == x.shape
hash(x.shape) == hash((5,3))
hash(x.shape)
{x.shape: 1}
{x.shape: 1}.get((5,3))
{(5,3): 1, (7,3): 2}.get(x.shape)
{x.shape}
{5: 'a', 7: 'b'}.get(x.shape[0])
{5: 'a', 7: 'b'}.get(len(x))
[10,20,30,40,50,60][x.shape[0]-2:]
"abcdefgh"[x.shape[0]-3]
(1,2,3,4,5,6,7,8,9)[x.shape[0]-1]
copy.deepcopy(x.shape)
copy.copy(x.shape)
copy.deepcopy([x.shape[0], x.shape])
copy.deepcopy({'a': x.shape[0]})
pickle.loads(pickle.dumps(x.shape))
pickle.dumps(x.shape[0])
json.dumps([x.shape[0]])
json.dumps(list(x.shape))
list(itertools.accumulate(x.shape))
list(itertools.product(x.shape, x.shape))
list(itertools.chain(x.shape, [1]))
list(itertools.repeat(x.shape[0], 2))
list(itertools.repeat(1, x.shape[0]))
list(itertools.islice(itertools.count(), x.shape[0]))
list(itertools.count(x.shape[0]).__next__() for _ in range(2))
list(itertools.islice(itertools.count(x.shape[0], 2), 3))
list(zip(x.shape, 'ab'))
list(enumerate(x.shape, x.shape[0]))
list(map(lambda a: a+1, x.shape))
list(filter(lambda a: a>4, x.shape))
[s for s in x.shape if s > 3]
list(itertools.combinations(x.shape, 2))
list(itertools.permutations(x.shape))
list(itertools.takewhile(lambda a: a>4, x.shape))
list(itertools.groupby(x.shape))[0][0]
list(itertools.pairwise(x.shape))
list(itertools.zip_longest(x.shape, [1]))
list(itertools.starmap(operator.mul, [x.shape]))
functools.reduce(operator.mul, x.shape, 1)
functools.reduce(lambda a,b: a*b, x.shape)
sum(x.shape)
math.prod(x.shape)
max(x.shape)
min(x.shape)
max(x.shape, key=lambda a: -a)
sorted(x.shape, reverse=True)
sorted(x.shape, key=lambda a: -a)
any(x.shape)
all(s > 2 for s in x.shape)
collections.Counter(x.shape)
collections.deque(x.shape, maxlen=x.shape[0])
dict.fromkeys(x.shape, 0)
dict(n=x.shape[0])
set(x.shape)
frozenset(x.shape)
tuple(x.shape)
list(x.shape)
divmod(x.shape[0], 2)
divmod(x.shape[0], 2.5)
x.shape[0] ** -1
x.shape[0] ** 0.5
2 ** x.shape[0]
(-2) ** x.shape[0]
-7 // x.shape[0]
-7 % x.shape[0]
7.5 // x.shape[0]
x.shape[0] / 3
x.shape[0] // 2.0
x.shape[0] * 1e308
x.shape[0] * 10**18
x.shape[0] * 10**30
1 << x.shape[0]
x.shape[0] << 62
x.shape[0] >> 1
x.shape[0] | 8
x.shape[0] & 3
x.shape[0] ^ x.shape[1]
~x.shape[0]
-x.shape[0] >> 1
x.shape[0] & -2
5 & x.shape[0]
True + x.shape[0]
x.shape[0] & True
x.shape[0] == 5.0
x.shape[0] == '5'
x.shape[0] is x.shape[0]
x.shape[0] is len(x)
not x.shape[0]
bool(x.shape[0] - 5)
x.shape[0] and 3
x.shape[0] - 5 or 'e'
round(x.shape[0] * .5)
round(x.shape[0] / 3, 2)
round(x.shape[0], -1)
round(x.shape[0] * 2.5)
round(-x.shape[0] * .5)
math.floor(x.shape[0] / 2)
math.ceil(x.shape[0] / 2)
math.sqrt(x.shape[0])
math.log2(x.shape[0])
math.log(x.shape[0], 2)
math.isqrt(x.shape[0])
math.factorial(x.shape[0])
math.lcm(x.shape[0], 6)
math.isclose(x.shape[0], 5)
math.fmod(x.shape[0], 3)
math.hypot(*x.shape)
math.copysign(x.shape[0], -1)
math.ldexp(1.0, x.shape[0])
math.frexp(x.shape[0])
math.isfinite(x.shape[0])
int(x.shape[0] / 2)
int(str(x.shape[0]))
int('1' * x.shape[0])
float(x.shape[0])
bin(x.shape[0])
oct(x.shape[0])
chr(65 + x.shape[0])
str(x.shape[0])
repr(x.shape[0])
f'{x.shape[0]}'
f'{x.shape[0]:3d}'
f'{x.shape[0]!r:>5}'
f'{x.shape[0]/3:.2f}'
'%d of %s' % (x.shape[0], x.shape[1])
'%s' % (x.shape,)
'{} {}'.format(*x.shape)
'{n}'.format(n=x.shape[0])
'-'.join(map(str, x.shape))
'ab' * x.shape[0]
[0] * x.shape[0]
(0,) * (x.shape[0]-1)
b'a' * x.shape[0]
bytearray(x.shape[0])
range(x.shape[0])
len(range(x.shape[0]))
range(0, x.shape[0], 2)
len(range(0, x.shape[0], 2))
range(x.shape[0])[1]
3 in range(x.shape[0])
list(range(0, x.shape[0], 2))
[i for i in range(0, x.shape[0], 2)]
[i for i in range(x.shape[0], 0, -2)]
[(i, x[i:i+4].sum()) for i in range(0, x.shape[0], 4)]
list(reversed(range(0, x.shape[0], 4)))
sum(range(0, x.shape[0], 4))
slice(0, x.shape[0]).indices(10)
slice(0, 10).indices(x.shape[0])
slice(None, -1).indices(x.shape[0])
x[slice(0, x.shape[0]-1)].shape
isinstance(x.shape[0], int)
type(x.shape[0]) is int
type(x.shape[0]).__name__
callable(x.shape[0])
x.shape[0].numerator
x.shape[0].conjugate()
x.shape[0].__class__.__name__
getattr(x.shape[0], 'imag')
hasattr(x.shape[0], 'foo')
id(x.shape[0]) == id(x.shape[0])
(lambda n=x.shape[0]: n)()
(lambda *a, **k: (a, k))(*x.shape, n=x.shape[0])
x.size()
x.stride()
x.stride(0)
x.storage_offset()
x[1:].storage_offset()
x[1:, 1:].storage_offset()
x.t().storage_offset()
x[x.shape[0]//2:].storage_offset()
x[-1].storage_offset()
x.view(-1).size()
x.numel()
x.nelement()
x.nbytes
x.ndim
x.is_contiguous()
x.T.is_contiguous()
x.new_zeros(x.shape[0]).shape
x.new_full((x.shape[0],), x.shape[0])
x.new_tensor([x.shape[0]])
torch.zeros(x.shape[0], 1).expand(-1, 4).stride()
torch.as_strided(x, (x.shape[0]-1, 2), (3, 1)).shape
torch.as_strided(x, (2, 2), (x.shape[0]//2, 1), x.shape[0]-2)
x.unfold(0, 2, 2).shape
x.unflatten(0, (x.shape[0], 1)).shape
x.view(x.shape[0], 3, 1).shape
x.reshape(3, -1).shape
x.swapaxes(0, 1).shape
x.movedim(0, 1).stride()
torch.tensor(x.shape[0])
torch.tensor([x.shape[0], 2])
torch.tensor(x.shape).sum()
torch.tensor(float(x.shape[0]))
torch.tensor([[x.shape[0]], [1]])
torch.Size([x.shape[0], 2])
torch.Size(x.shape).numel()
torch.scalar_tensor(x.shape[0])
torch.full_like(x, x.shape[0])
x.fill_(x.shape[0])
x.clone().fill_(x.shape[0] / 2)
x[0, 0] * x.shape[0]
x + x.shape[0]
x * (x.shape[0] > 4)
x ** x.shape[0]
x.sum() / x.shape[0]
x.pow(1 / x.shape[0])
x.clamp(max=x.shape[0])
torch.where(x > x.shape[0], x, 0)
torch.where(x > 3, x.shape[0], 0)
torch.arange(x.shape[0])
torch.arange(1, x.shape[0])
torch.arange(0, x.shape[0], 2)
torch.arange(0, x.shape[0], 0.5)
torch.arange(x.shape[0] / 2)
torch.arange(x.shape[0], 0, -1)
torch.linspace(0, 1, x.shape[0])
torch.linspace(0, x.shape[0], 5)
torch.logspace(0, 1, x.shape[0])
torch.range(0, x.shape[0]).shape
torch.ones(x.shape[0], x.shape[0]).tril()
torch.triu_indices(x.shape[0], x.shape[0])
torch.tril_indices(x.shape[0], 3)
torch.bartlett_window(x.shape[0])
torch.kaiser_window(x.shape[0])
torch.vander(x[:, 0]).shape
torch.vander(x[:,0], x.shape[0]).shape
torch.cartesian_prod(x[:, 0], x[:, 0]).shape
torch.block_diag(x, x).shape
torch.diag(x[:, 0]).shape
torch.diagonal(x).shape
torch.diag_embed(x).shape
torch.nonzero(x).shape
x[x > 2].shape
x[[0, x.shape[0]-1]]
x[[0, -1]]
x[torch.tensor([0, x.shape[0]-1])]
x[x.shape[0]-1]
x[-x.shape[0]]
x[..., None].shape
x[:, [0, 2]].shape
x[::2].shape
x[1::2].stride()
x[x.shape[0]//2:].shape
x[:-1].shape
x[-3:].shape
x.index_select(0, torch.tensor([0])).shape
x.gather(0, torch.zeros(x.shape, dtype=torch.long)).shape
x.scatter(0, torch.zeros(x.shape, dtype=torch.long), 1.)
x.take(torch.tensor([0, x.numel()-1]))
x.kthvalue(x.shape[0], 0)[0]
x.topk(2, 0)[0]
x.sort(0)[0]
x.median()
x.mode(0)[0]
x.cummax(0)[0]
x.cumprod(0)
x.logcumsumexp(0)
x.diff(dim=0).shape
x.bincount() if x.dim() == 1 else x.long().view(-1).bincount().shape
x.histc(x.shape[0]+1)
x.view(-1).unique().shape
torch.split(x, x.shape[0] // 2 + 1)[0].shape
x.split([1, x.shape[0]-1])[1].shape
x.split(1)[-1]
len(x.split(2))
len(x.chunk(2))
len(x.unbind())
[r.sum() for r in x]
[len(list(x))]
iter(x).__next__()
torch.tensor_split(x, 2)[1].shape
x.tensor_split((1, x.shape[0]-1))[1].shape
x.vsplit([1])[1].shape
x.tile(2, 1).shape
x.tile((x.shape[0],)).shape
x.repeat_interleave(2, 0).shape
x.repeat_interleave(x.shape[0], 0).shape
torch.cat([x, x]).shape
torch.stack([x] * 2).shape
torch.cat([x] * x.shape[0]).shape
torch.stack([x.sum()] * x.shape[0]).shape
torch.broadcast_to(x, (2, *x.shape)).shape
torch.broadcast_tensors(x, x[:1])[1].shape
torch.einsum('ij,kj->ik', x, x).shape
torch.kron(x, x).shape
torch.outer(x[:,0], x[:,0]).shape
torch.cdist(x, x).shape
torch.tensordot(x, x, ([0], [0])).shape
torch.trapz(x, dim=0)
torch.fft.fft(x, dim=0).shape
torch.fft.rfft(x, dim=0).shape
torch.fft.irfft(torch.fft.rfft(x, dim=0), n=x.shape[0], dim=0).shape
torch.fft.fftfreq(x.shape[0])
torch.fft.fftshift(x).shape
F.pad(x, (1, x.shape[0])).shape
F.pad(x[None], (1, 1), mode='reflect').shape
F.interpolate(x.t()[None], scale_factor=2).shape
F.interpolate(x.t()[None], size=x.shape[0]*2, mode='linear').shape
F.interpolate(x[None, None], scale_factor=1.5, mode='bilinear').shape
F.avg_pool1d(x.t()[None], 2).shape
F.max_pool1d(x.t()[None], 2).shape
F.adaptive_avg_pool1d(x.t()[None], 2).shape
F.adaptive_avg_pool1d(x.t()[None], x.shape[0]).shape
F.unfold(x[None, None], 2).shape
F.fold(F.unfold(x[None, None], 2), x.shape, 2).shape
F.layer_norm(x, x.shape[1:]).shape
F.layer_norm(x, x.shape).shape
F.normalize(x).stride()
F.one_hot(torch.arange(x.shape[0])).shape
F.dropout(x, 1/(x.shape[0]+1), False)
F.softmax(x, x.dim()-1)
F.embedding(torch.arange(x.shape[0]), torch.ones(20, 2)).shape
F.embedding(torch.tensor([0]), x).shape
F.cross_entropy(x, torch.zeros(x.shape[0], dtype=torch.long))
F.mse_loss(x, x+1)
F.pairwise_distance(x, x+1).shape
F.cosine_similarity(x, x).shape
F.linear(x, torch.ones(x.shape[0], 3)).shape
F.glu(torch.cat([x, x], 1)).shape
x.std(0)
x.var()
x.norm()
x.renorm(2, 0, 1.)
x.logsumexp(0)
x.roll(1, 0)
x.rot90().shape
x.flip(0)
x.tril(-1)
x.triu(x.shape[0]-4)
x.fliplr().stride()
torch.atleast_3d(x).shape
torch.meshgrid(x[:, 0], x[0], indexing='xy')[0].shape
torch.bucketize(x, x[:,0].contiguous()).shape
torch.searchsorted(x[:,0].contiguous(), x).shape
torch.lerp(x, x+1, 1/x.shape[0])
torch.addmm(x[:, :1], x, torch.ones(3, 1)).shape
torch.baddbmm(x[None], x[None], torch.ones(1, 3, 3)).shape
torch.linalg.norm(x)
torch.linalg.vector_norm(x, dim=0)
torch.linalg.qr(x)[0].shape
torch.linalg.matrix_power(x.t()@x, 2).shape
torch.corrcoef(x).shape
torch.cov(x).shape
torch.cov(x.t())
torch.quantile(x, .5, 0)
torch.nanmean(x, 0)
torch.isin(x, torch.arange(x.shape[0])).shape
torch.promote_types(x.dtype, torch.int)
torch.can_cast(x.dtype, torch.int)
x.dtype.itemsize * x.shape[0]
torch.finfo(x.dtype).eps * x.shape[0]
torch.is_tensor(x.shape[0])
torch.is_same_size(x, x)
x.is_set_to(x)
x._base is None
x.view(-1)._base is x
x._version
x.is_shared()
x.__dlpack__() is None
torch.utils.dlpack.from_dlpack(x).shape
x.__reduce_ex__(2)[0].__name__
copy.deepcopy(x).shape
copy.copy(x).stride()
x.to('meta').shape
x.to('meta').untyped_storage().nbytes()
torch.zeros_like(x, memory_format=torch.contiguous_format).stride()
x.contiguous().stride()
x.clone().stride()
x.t().clone().stride()
(x + x.t().t()).stride()
(x.t() + 1).stride()
x.cumsum(0).stride()
x.sort(0)[0].stride()
x.view(torch.int32).shape
x.view(torch.float64).shape if x.shape[-1] % 2 == 0 else 0
x.to(torch.float64).view(torch.float32).shape
torch.view_as_complex(torch.zeros(x.shape[0], 2)).shape
x.type(torch.int).shape
x.__len__()
x.__array__().shape
x.element_size() * x.shape[0]
torch.ops.aten.size(x)
torch.ops.aten.sym_size.int(x, 0)
torch.ops.aten.sym_numel(x)
torch._C._nn.gelu(x).shape
torch._shape_as_tensor(x)
torch.ops.aten._shape_as_tensor(x)
torch.sym_max(x.shape[0], 6)
torch.sym_min(*x.shape)
torch.sym_float(x.shape[0])
torch.sym_not(x.shape[0] > 5)
torch.sym_ite(x.shape[0] > 5, 1, 2)
torch.sym_sqrt(x.shape[0])
torch.sym_sum(list(x.shape))
torch._check(x.shape[0] > 1)
torch._check_is_size(x.shape[0])
torch._assert(x.shape[0] != 4, 'no 4')
x.sum_to_size(1, 3)
x.expand_as(torch.zeros(2, *x.shape)).shape
x.view_as(torch.zeros(x.numel())).shape
torch.squeeze(x).shape
x.squeeze(0).shape
x.unsqueeze(-1).stride()
x.ravel().shape
torch.hstack([x, x]).shape
torch.dstack([x, x]).shape
torch.column_stack([x[:, 0], x]).shape
torch.nn.utils.rnn.pad_sequence([x, x[:2]]).shape
torch.nn.utils.parameters_to_vector([x, x]).shape
torch.nn.functional.scaled_dot_product_attention(x[None], x[None], x[None]).shape
torch.chain_matmul(x, torch.ones(3, 2)).shape
torch.count_nonzero(x)
torch.allclose(x, x)
torch.argmax(x)
torch.unravel_index(torch.tensor(3), x.shape)
torch.stft(x.reshape(-1), 4, return_complex=True, window=torch.ones(4)).shape
x.refine_names('a', 'b').shape
x.rename('a', 'b').shape
x.to_sparse_csr().shape
x.to_sparse()._nnz()
torch.sparse_coo_tensor([[0], [1]], [1.], x.shape).shape
torch.sparse_coo_tensor([[0], [1]], [1.], x.shape).to_dense()
"""

PROGRAMS = """
n = x.shape[0]; x.unsqueeze_(0); return n, x.shape
---
x.t_(); return x.shape, x.stride(), x.shape[0] + 1
---
z = x.view(-1); x.t_(); z.add_(x.shape[0]); return z.shape, z
---
k = {'n': x.shape[0]}; x.transpose_(0, 1); return k, x.shape
---
x.squeeze_().unsqueeze_(0).add_(1); return x * x.shape[1], x.shape
---
y = x.detach(); y.t_(); return x.shape, y.shape
---
x.as_strided_((2, 2), (1, 1)); return x.shape, x.numel()
---
x.as_strided_((x.shape[0], 2), (1, 1)); return x.shape, x.numel()
---
x.swapaxes_(0, 1); n = x.shape[1]; return n * 2, x
---
y = x.data; y.unsqueeze_(0); return x.shape, y.shape
---
x.data = torch.zeros(x.shape[0] + 1, 2); return x.shape
---
x.data = x.data[1:]; return x.shape, x
---
y = x.clone(); y.data = torch.zeros(2); return y.shape
---
return x.as_strided((5, 2), (3, 1))
---
return x.as_strided((3, 2), (3, 1), 4)
---
return x.as_strided((x.shape[0], 2), (2, 1), 1)
---
return x.as_strided((x.shape[0], 3), (3, 1), 1)
---
y = x[:3]; y.add_(x[x.shape[0]-3:]); return y
---
y = x[:2]; y.copy_(x[x.shape[0]-2:]); return x
---
x[1:] += x[:-1]; return x
---
x[2:].mul_(x[:-2]); return x
---
x[1:].copy_(x[:-1]); return x
---
x[:3] = x[-3:]; return x
---
y = x[:1].expand(x.shape[0], 3); y += 1; return y
---
y = x.unfold(0, 2, 1); y.add_(1); return x
---
y = x.as_strided((x.shape[0]-1, 2), (1, 1)); y.add_(1); return x
---
y = x.as_strided((2, 3), (x.shape[0], 1)); y.add_(1); return x
---
y = x.as_strided((2, 3), (x.shape[0]-3, 1)); y.add_(1); return x
---
return x[4]
---
return x[-5]
---
return x.narrow(0, 3, 2)
---
return x.select(0, 4)
---
return x + torch.ones(5, 1)
---
return x + torch.ones(5, 3)
---
x += torch.ones(5, 3); return x
---
return x.add(torch.ones(7, 5, 3)).shape
---
return x.view(5, 3)
---
return x.view(-1, 5)
---
return x.reshape(-1, 2, 3)
---
return x.view(x.shape[0] // 2, 2, 3)
---
return x.unflatten(0, (2, -1))
---
return F.conv1d(x.t()[None], torch.ones(1, 3, 4))
---
return F.conv1d(x.t()[None], torch.ones(1, 3, 2), stride=3, dilation=2)
---
return F.pad(x[None], (0, 0, 3, 2), mode='reflect') if x.dim() == 9 else F.pad(x.t()[None], (3, 2), mode='reflect')
---
return F.pad(x.t()[None], (4, 2), mode='circular')
---
return F.pad(x, (0, 0, -2, -2))
---
return F.instance_norm(x.t()[None])
---
return F.batch_norm(x, torch.zeros(3), torch.ones(3), training=True)
---
return F.max_pool1d(x.t()[None], 3, stride=2, ceil_mode=True)
---
return F.avg_pool1d(x.t()[None], 4, padding=2)
---
return F.adaptive_max_pool1d(x.t()[None], 4)
---
return x.topk(4, 0)
---
return x.kthvalue(4, 0)[0]
---
return x.chunk(4)
---
return [c.shape for c in x.chunk(4)]
---
return x.split(3)
---
return x.split([2, 3])
---
return x.tensor_split(4)
---
a, b = x.chunk(2); return a.shape, b.shape
---
a, *b = x; return a, len(b)
---
a, b = x[:2]; return a + b
---
return torch.cat([x, torch.ones(5, 3)], 1)
---
return torch.stack([x, torch.ones(5, 3)])
---
return x @ torch.ones(3, 2) + torch.arange(5.)[:, None]
---
return x.t() @ torch.ones(5, 2)
---
return torch.mm(x, x)
---
return F.cross_entropy(x, torch.zeros(5, dtype=torch.long))
---
return x.index_select(0, torch.tensor([4]))
---
return x[torch.tensor([4])]
---
return x[[4, 0]]
---
x[[4]] = 1.; return x
---
return x[torch.arange(5) > 2]
---
return x.masked_select(torch.ones(5, 1) > 0)
---
return x.scatter(0, torch.tensor([[4, 0, 0]]), 1.)
---
return x.gather(0, torch.tensor([[4, 0, 0]]))
---
return x.index_add(0, torch.tensor([4]), torch.ones(1, 3))
---
return x.diag(3), x.diagonal(4)
---
return x.unfold(0, 4, 2)
---
return x.movedim(0, 1).flatten().view(3, -1)
---
return torch.diag_embed(x[:, 0], 1)
---
return x.repeat(2, x.shape[0]).shape
---
return x.std(0, correction=x.shape[0]-1), x.var(0, correction=3)
---
return x.max(0), x.argmax(0)
---
return x[3:].max(0)
---
return x[4:].argmax()
---
return x[4:].amin()
---
return x[5:].mean()
---
return x[:, None].expand(-1, 2, -1).contiguous().stride()
---
return (x[:, :1] + 0).stride(), x[:, :1].contiguous().stride(), x[:, :1].clone().stride()
---
return (x[:1] + 0).stride(), x[:1].clone().stride(), x[:2].clone().stride(), x[-1:].contiguous().stride()
---
return x[2:].clone().stride(), (x[2:] * 2).stride(), x[2:].is_contiguous()
---
return x[:, ::2].is_contiguous(), x[::4].is_contiguous(), x[::4].stride(), x[::4].clone().stride()
---
y = x[::4]; return y.view(-1) if y.is_contiguous() else y.reshape(-1)
---
return x[::4].view(-1)
---
return x[3:].t().view(-1)
---
return x.t()[:, 3:].reshape(-1)
---
return x.t().flatten().stride(), x.t()[:1].flatten().stride()
---
y = x.t()[:1]; y += 1; return x
---
return torch.ones(x.shape[0] - 2, 3).t().reshape(-1).stride()
---
y = torch.ones(x.shape[0] - 2, 3).t().reshape(-1); z = torch.ones(3); return y
---
y = x[2:].t(); z = y.reshape(-1); z.add_(1); return x
---
y = x[2:].t(); z = y.contiguous(); z.add_(1); return x
---
y = x[:, 1:2]; z = y.contiguous(); z.add_(1); return x
---
y = x[1:3]; z = y.reshape(-1); z.add_(1); return x
---
y = x[3:, :1]; z = y.reshape(-1); z.add_(1); return x
---
z = x.expand(x.shape[0], 3).contiguous(); z.add_(1); return x, z is x
---
z = x.expand(5, 3); return z
---
z = x.to(torch.float32); z += 1; return x, z is x
---
z = x.sum_to_size(5, 1); return z
---
z = torch.broadcast_to(x, (5, 3)); return z is x
---
z = x.view_as(torch.ones(5, 3)); return z
---
return x.shape[0] * 2**61
---
return x.shape[0] ** 30
---
return x.shape[0] * 3037000500 * 1000000000
---
return (x.shape[0] - 5) // 2, (x.shape[0] - 5) % 3, -(x.shape[0]) // 2
---
return torch.arange(5) < x.shape[0]
---
return torch.zeros(5)[:x.shape[0]].shape
---
return torch.zeros(5)[x.shape[0]:].shape
---
return torch.zeros(5)[-x.shape[0]:].shape
---
return torch.zeros(5)[:-x.shape[0]].shape
---
return torch.zeros(5)[x.shape[0] - 3]
---
y = torch.zeros(5); y[:x.shape[0]] = 1; return y
---
y = torch.zeros(5, 3); y[:x.shape[0]] = x[:5]; return y
---
y = torch.zeros(5, 3); y[:x.shape[0]] = x; return y
---
y = torch.zeros(10, 3); y[2:2 + x.shape[0]].copy_(x); return y
---
return x.new_zeros(5 - x.shape[0])
---
return torch.ones(x.shape[0] - 4, 2)
---
return torch.ones(x.shape[0] - 4, 2).sum(0), torch.ones(x.shape[0] - 4, 2).stride()
---
return torch.ones(2, x.shape[0] - 4).stride(), torch.ones(2, x.shape[0] - 4).is_contiguous()
---
return torch.ones(2, x.shape[0] - 5).stride(), torch.ones(2, abs(x.shape[0] - 5)).t().stride()
---
return torch.eye(x.shape[0])[:3, :3], torch.ones(3, 3).tril(x.shape[0] - 5)
---
return x[x.shape[0] - 5:]
---
return x[x.shape[0] - 5]
---
return x[: x.shape[0] - 5].shape
---
for i, r in enumerate(x):
    if i == 2: return r
---
for i in range(x.shape[0]):
    if i == 2: return x[i]
---
i = 0
while i < x.shape[0]:
    i += 3
return i, x[:i]
---
try:
    return x[4]
except IndexError as e:
    return str(e)
---
try:
    return x.view(5, 3)
except RuntimeError as e:
    return str(e)
---
assert x.shape[0] == 5, f"bad {x.shape[0]}"
return x
---
assert x.shape[0] > 3, x.shape
return x + 1
---
raise ValueError(x.shape[0])
---
raise ValueError(f"{x.shape[0]}", x.shape)
---
match x.shape:
    case (5, 3): return 'a'
    case (n, 3): return n
---
match x.shape[0]:
    case 5 | 7: return 'a'
    case n: return n
---
with torch.inference_mode():
    y = x.clone(); y.unsqueeze_(0); n = y.shape[1]
    return y.shape, n
---
with torch.no_grad():
    x.t_()
return x.shape, x
---
with torch.inference_mode():
    x.t_()
return x.shape, x.stride()
---
with torch.inference_mode():
    n = x.shape[0]; x.unsqueeze_(0)
return n, x.shape
---
g = (i for i in x.shape); return next(g), list(g)
---
it = iter(x.shape); return next(it), it
---
d = {}; d[x.shape[0]] = 1; d[len(x)] = 2; return d
---
d = {x.shape[0]: 1}; return d[len(x)], 5 in d
---
s = set(); s.add(x.shape[0]); return s, 5 in s
---
l = [x.shape[0]]; l.append(5); return l.index(5), l.count(5), sorted(l), l
---
l = [3, x.shape[0], 1]; l.sort(); return l
---
l = [3, x.shape[0], 1]; l.remove(5); return l
---
l = [9] * 20; l[x.shape[0]] = 1; del l[:x.shape[0]]; return l
---
l = list(range(20)); l.insert(x.shape[0], 'a'); return l.pop(x.shape[0])
---
l = [(x.shape[0], 'a'), (5, 'b')]; return min(l), max(l), sorted(l), (5, 'a') in l
---
return (x.shape[0], 1) < (5, 2), [x.shape[0]] == [5], (x.shape[0],) in {(5,)}
---
class A:
    def __init__(self, n): self.n = n
    def __eq__(self, o): return self.n == o.n
    def __hash__(self): return hash(self.n)
    def __index__(self): return self.n
return A(x.shape[0]) == A(5), {A(5): 1}.get(A(x.shape[0])), x[:A(x.shape[0] - 2)], list(range(A(3)))
---
@dataclasses.dataclass(frozen=True)
class D:
    n: int
    s: tuple = ()
return D(x.shape[0]) == D(5), repr(D(x.shape[0]).n), D(x.shape[0], x.shape).s
---
def g(n, acc=0): return acc if n <= 0 else g(n - 2, acc + n)
return g(x.shape[0])
---
y = torch.zeros(3, 3); y[0, 0] = x.shape[0]; return y
---
y = torch.zeros(3, dtype=torch.uint8); y += x.shape[0] * 50; return y
---
y = torch.zeros(3, dtype=torch.uint8); return y + x.shape[0] * 100, y.fill_(x.shape[0])
---
y = torch.zeros(3, dtype=torch.int8); return y.clamp(0, x.shape[0] * 40), torch.full((2,), x.shape[0] * 60, dtype=torch.int8)
---
return torch.tensor(x.shape[0] > 5), torch.tensor([x.shape[0] / 2]), torch.tensor(x.shape, dtype=torch.float)
---
return x.new_tensor(x.shape[0]), torch.as_tensor([x.shape[0]]), torch.asarray(x.shape)
---
torch._check(x.shape[0] != 7, lambda: "seven")
return x.shape
---
torch._check(x.shape[0] == 5)
return x.shape[0]
---
torch._assert(x.shape[0] != 4, 'no 4')
return x + 1
---
return x.storage_offset(), x[2:].storage_offset(), x[x.shape[0]-1:].storage_offset()
---
return torch.nn.functional.embedding_bag(torch.arange(x.shape[0]), torch.ones(20, 2), torch.tensor([0, 2]))
---
return torch.get_default_dtype(), torch.is_inference_mode_enabled(), x.is_inference(), (x + 1).is_inference()
---
return torch.nn.utils.rnn.pack_padded_sequence(x[None], [x.shape[0]], batch_first=True).batch_sizes
---
y = x.clone().requires_grad_(); (y * x.shape[0]).sum().backward(); return y.grad
---
y = torch.utils.checkpoint.checkpoint(lambda a: a * a.shape[0], x, use_reentrant=False); return y
---
y = x.view(x.shape[0], 3).to(torch.double); return y.view(torch.float).shape, y.view(torch.int32).stride()
---
y = x.t().view(torch.int32); return y.stride(), y.shape
---
y = torch.complex(x, x); return torch.view_as_real(y).shape, y.real.stride(), y.imag.storage_offset(), y.conj().is_conj()
---
return x.flatten().tolist()[:2], x.sum().item() + x.shape[0]
---
torch.add(x, 1, out=x[:5]); return x
"""

NAMES = {
    module.__name__.rpartition(".")[2]: module
    for module in (torch, collections, copy, dataclasses, functools, itertools, json, math, operator, pickle)
} | {"F": F}


def function(body: str):
    names = dict(NAMES)
    exec("def f(x):\n" + "\n".join("    " + line for line in body.split("\n")), names)
    return names["f"]


CASES = ["return " + expression for expression in EXPRESSIONS.strip().split("\n")]
CASES += PROGRAMS.strip().split("\n---\n")


def made(size: int, mode: str) -> torch.Tensor:
    with torch.inference_mode(mode == "inference"):
        numbers = torch.arange(size * 3.0)
        return numbers.view(3, size).t() if mode == "transposed" else numbers.view(size, 3)


def picture(value):
    if isinstance(value, torch.Tensor):
        if value.layout != torch.strided or value.device.type == "meta":
            return type(value), tuple(value.shape), value.device.type
        return tuple(value.shape), value.stride(), value.storage_offset(), value.dtype, repr(value.tolist())
    if isinstance(value, (tuple, list)):
        return type(value), [picture(part) for part in value]
    if isinstance(value, dict):
        return type(value), [(picture(key), picture(part)) for key, part in value.items()]
    text = repr(value)
    return type(value).__name__ if " at 0x" in text or "<locals>" in text else text


def outcome(f, x: torch.Tensor, mode: str):
    with torch.inference_mode(mode == "inference"):
        try:
            return picture(f(x)), picture(x)
        except Exception as error:  # an error of torch may end in where it was raised
            return type(error).__name__, str(error)[:60], picture(x)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("body", CASES)
def test_no_hint_leaks(body, monkeypatch):
    monkeypatch.setattr(pellucid.config, "recompile_limit", 50)
    f = function(body)
    for dynamic in (None, True):
        for mode in ("plain", "inference", "transposed"):
            counting = Counting()
            compiled = pellucid.compile(f, backend=counting, dynamic=dynamic)
            for size in SIZES:
                want = outcome(f, made(size, mode), mode)
                assert outcome(compiled, made(size, mode), mode) == want, (dynamic, mode, size)
