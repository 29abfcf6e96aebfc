import torch


def pool(x, weight):
    b, s = x.shape[:2]
    y = x.reshape(b * s, -1) @ weight
    if s % 2:
        return y.view(b, s, -1).mean(1)
    return y.view(b, s // 2, 2, -1).amax((1, 2)), y.shape


for length in 3, 6:
    pool(torch.ones(2, length, 4), torch.ones(4, 8))
