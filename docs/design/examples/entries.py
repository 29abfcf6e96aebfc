import torch


def scale(x, by, label):
    return x * by if label == "up" else x / by


for by, label in (2, "up"), (3, "up"), (4, "down"), (5, "up"):
    scale(torch.ones(3), by, label)
