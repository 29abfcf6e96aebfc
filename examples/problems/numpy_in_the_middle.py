"""A step of the preprocessing goes through numpy."""

import numpy as np
import torch

import pellucid


@pellucid.compile(backend="aot_eager")
def normalized(image):
    image = image - image.mean()
    counts, _ = np.histogram(image.numpy(), 3, (-3, 3))
    return image / torch.from_numpy(counts).max()


print(normalized(torch.arange(6.0)).tolist())
