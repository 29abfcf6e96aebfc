# call 0 (- eager, + compiled)
# -result: NoneType None
# +raised: #0 KeyError '<built-in method upper of str object at 0x…>'

import torch
from value_matrix_values import VALUES

METHOD = VALUES["text_method"]
TABLE = {}


def reset():
    TABLE.clear()
    TABLE.update({METHOD(0): 1, "a": 2})


def change():
    TABLE[METHOD(0)] = 3


def inputs(variant):
    word = "".join(["wo", "rd"])
    return [torch.ones(2), METHOD(variant % 2), {word.upper: 1}, word], {}


def f(x, key, words, word):
    TABLE.pop(METHOD(0), None)
    TABLE[key] = 5
    words[word.upper] = 2
    return x + 1, len(words)
