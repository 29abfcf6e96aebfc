import torch


def patches(x, grid):
    t, h, w = grid.tolist()
    return x.view(t, h, w, -1).mean((1, 2))


patches(torch.ones(8, 3), torch.tensor([2, 2, 2]))
