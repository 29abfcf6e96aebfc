"""What makes a graph for each size, or none: what is in the way stands beside it.

With more than a missing rule of pellucid in the way torch._dynamo mostly needs as many.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F

from uses.table import image, matrices, matrix, ramp, rows, sequence, square, uses, vector

uses(
    "pinned numbers",
    matrix,
    graphs=5,
    why="a float in this place is a value in the graph",
    arange_steps=lambda x: torch.arange(0, 1, 1 / x.size(0))[:3],
    arange_to=lambda x: torch.arange(0.0, x.size(0) + 0.5, 1.0)[: x.size(0)],
    float_power=lambda x: torch.float_power(x.abs() + 1, 1 / x.size(0)),
    logit=lambda x: torch.logit(x.sigmoid(), eps=0.1 / x.size(0)),
    nan_to_num=lambda x: torch.nan_to_num(x, nan=1 / x.size(0)),
    normal=lambda x: x.clone().normal_(0, 1 / x.size(0)),
    quantile=lambda x: torch.quantile(x, 1 / x.size(0)),
    std=lambda x: torch.normal(0.0, 1 / x.size(0), (3,)),
)
uses(
    "pinned offsets",
    lambda n: [ramp(20, 3)[n:]],
    graphs=5,
    why="where a tensor begins in its storage is not guarded, so reading it ends the graph",
    of_argument=lambda x: x + x.storage_offset(),
    of_part=lambda x: x[1:] + x[2:].storage_offset(),
)
uses(
    "pinned composites",
    matrix,
    graphs=5,
    why="torch's code reads plain sizes",
    cov_weighted=lambda x: torch.cov(x.T, fweights=torch.ones(x.size(0), dtype=torch.long)),
    gradient=lambda x: torch.gradient(x, dim=0),
    bytes=lambda x: x + x.nbytes,
    rrelu=F.rrelu,
)
uses(
    "pinned by ints",
    vector,
    graphs=5,
    why="it takes plain ints",
    vander=lambda x: torch.vander(x, x.size(0)),
    tril_indices=lambda x: torch.tril_indices(x.size(0), 4),
    triu_indices=lambda x: torch.triu_indices(4, x.size(0)),
)
uses(
    "pinned operators",
    sequence,
    graphs=5,
    why="there is no size rule",
    conv_tbc=lambda x: torch.conv_tbc(x.permute(2, 0, 1).contiguous(), ramp(3, 4, 2), torch.zeros(2), 1),
)
uses(
    "pinned grids",
    image,
    5,
    "torch's code reads plain sizes",
    affine_grid=lambda x: F.grid_sample(
        x, F.affine_grid(torch.eye(2, 3).expand(2, -1, -1), x.shape, align_corners=False), align_corners=False
    ),
)
uses("pinned ranks", square, 5, "the sum goes into a tensor that is there already", rank=torch.linalg.matrix_rank)
uses(
    "pinned spectrograms",
    lambda n: [ramp(2, 4 * n)],
    graphs=5,
    why="the length is a plain int",
    istft_length=lambda x: torch.istft(
        torch.stft(x, 8, return_complex=True, window=torch.ones(8)), 8, window=torch.ones(8), length=x.size(-1)
    ),
)
uses(
    "two ways",
    rows,
    graphs=4,
    why="what is cut is another graph than what is padded, and than neither",
    fft_to=lambda x: torch.fft.fft(x, 8),
)
uses(
    "parts of rows",
    matrix,
    graphs=5,
    why="how many are chosen is known when it runs",
    combinations=lambda x: torch.combinations(x[:, 0], 2),
    bincount=lambda x: torch.bincount(x[:, 0].long().abs(), minlength=20)[:20].sum(),
)
uses(
    "not captured",
    matrices,
    graphs=0,
    why="torch has no shape rule for it",
    quantised=lambda x, y: torch.fake_quantize_per_tensor_affine(x, 0.1, 0, 0, 255),
    histogram=lambda x, y: torch.histogram(x, 3),
    geqrf=lambda x, y: torch.geqrf(x)[0],
)
