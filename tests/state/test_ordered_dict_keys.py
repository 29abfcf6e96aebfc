"""An OrderedDict from outside with a key whose hash is another one than when it was stored."""

import collections

import torch

import pellucid


class Counted:
    def __init__(self, count):
        self.count = count

    def __hash__(self):
        return hash(self.count)

    def __eq__(self, other):
        return isinstance(other, Counted) and self.count == other.count


def written(compile_it):
    """What a store of another key leaves behind, by the dict's own table: to walk along the order raises KeyError."""
    key = Counted(2)
    ordered = collections.OrderedDict([(key, 1), ("other", 2)])
    key.count += 5

    def store(x):
        y = x * 2
        ordered[y.shape] = 3
        return y + 1

    result = compile_it(store)(torch.ones(2))
    return result.tolist(), len(ordered), dict.get(ordered, torch.Size([2])), dict.get(ordered, "other")


def test_a_store_beside_a_key_whose_hash_has_changed(counting):
    compiled = written(lambda function: pellucid.compile(function, backend=counting))
    assert compiled == written(lambda function: function) == ([3.0, 3.0], 3, 3, 2)
    assert counting.graphs
