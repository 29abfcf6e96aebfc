import torch


def look_up(table, key):
    if key not in table:
        raise KeyError(key)
    return table[key]


def f(table, x):
    try:
        return x * look_up(table, "scale")
    except KeyError as error:
        return x + len(error.args)


f({"shift": 1}, torch.ones(2))
