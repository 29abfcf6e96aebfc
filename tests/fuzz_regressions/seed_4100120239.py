# call 0 (- eager, + compiled)
# -raised.__context__.args[1]: #3 tuple of 1
# +raised.__context__.args[1]: #3 list of 1


class Problem(Exception):
    pass


class Members:
    pass


class A(Members):
    def __init__(self, count=1):
        pass


G_OBJ = A(2)


def reset():
    pass


def change():
    pass


def inputs(variant):
    x = torch.arange(6.0).view(2, 3).requires_grad_(False) - 2 + variant
    items = [1, 2, 3 + variant]
    return (
        [
            x,
            x[0] if False else torch.ones(3),
            2 + variant,
            items,
            {"a": 1, "b": 2 + variant},
            A(3),
            items if False else [5],
        ],
        {"flag": variant == 0, "more": [x, torch.ones(2, 3)]},
    )


def f(x, y, n, items, table, obj, others, *, flag=True, more=()):
    for i8, i9 in enumerate(list((0, 0, 5)[::-1])[:4]):
        try:
            try:
                try:
                    items.extend(list(vars(G_OBJ)["extra"].values())[:2])
                    raise ValueError(str(items.copy())[:20])
                except ValueError as e10:
                    pass
            except Problem as e10:
                LOG.append((type(e10.__cause__).__name__, str(e10)))
            raise ExceptionGroup("group", [ValueError(i9), KeyError("ab".replace("a", "bb")[:12])])
        except* ValueError as e11:
            LOG.append(len(e11.exceptions))
        except* KeyError:
            obj[int(-1.5 % 3) % 1000] = (lambda i12, i13=-i9: G_INT)(int("ab"))
    else:
        table = collections.OrderedDict(b=G_INT, a=COUNTER.get("x") or 0)
