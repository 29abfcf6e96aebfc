import torch


def descend(weight, gradient, step):
    step += 1
    correction = 1 - 0.9**step
    if step > 5.0:
        return weight - gradient / correction
    return weight - gradient


descend(torch.ones(2), torch.ones(2), torch.tensor(0.0))
