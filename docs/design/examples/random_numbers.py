import random

import torch


def augment(x):
    angle = random.uniform(-0.5, 0.5)
    y = x * angle
    return y + random.randint(1, 6), angle


augment(torch.ones(2))
