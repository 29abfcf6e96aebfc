"""torch has the same function."""

import torch

import pellucid


@pellucid.compile(backend="aot_eager")
def normalized(image):
    image = image - image.mean()
    image = image.flip(0)
    return image / 2


print(normalized(torch.arange(6.0)).tolist())
