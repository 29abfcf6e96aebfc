# send, throw and close of a generator that the region made were AttributeErrors, which the program can catch.
import torch

LOG = []


def reset():
    LOG.clear()


change = reset


def inputs(variant):
    return [torch.ones(2)], {}


def numbers(n):
    try:
        try:
            got = yield n
            LOG.append(got)
        except KeyError as error:
            LOG.append(str(error))
        yield n + 1
    finally:
        LOG.append("end")


def f(x):
    try:
        a, b, c = numbers(1), numbers(2), numbers(3)
        next(a), next(b), next(c)
        a.send("told")
        b.throw(KeyError("thrown"))
        c.close()
    except AttributeError as error:
        LOG.append(str(error))
    return x + next(b, 5), next(c, 7), hasattr(c, "send"), hasattr(c, "nothing")
