"""A step of the preprocessing goes through numpy."""

import numpy as np
import torch

import pellucid


@pellucid.compile(backend="aot_eager")
def normalized(image):
    image = image - image.mean()
    image = torch.from_numpy(np.flip(image.numpy()).copy())
    return image / 2


print(normalized(torch.arange(6.0)).tolist())
