import torch


def f(table, total, index):
    total.add_(1)
    try:
        return table[index] + total
    except IndexError:
        return total


f(torch.ones(3), torch.zeros(1), torch.tensor([1]))
