"""torch has the same function."""

import torch

import pellucid


@pellucid.compile(backend="aot_eager")
def normalized(image):
    image = image - image.mean()
    counts = torch.histc(image, 3, -3, 3)
    return image / counts.max()


print(normalized(torch.arange(6.0)).tolist())
