"""Statements of the programs: templates as in expressions.py, and

    <~x:T>     binds a name for the rest of the block (an old one of that type, sometimes)     <~x:T>  only inside of this statement
    {int@}    a name that this function may assign        BLOCK    some statements        LOOP   the same, where `break` and `continue` may stand
    DEF       some statements of a function of its own, NONLOCAL a `nonlocal` or `global` line, or nothing

A template is a paragraph; a first line "# BREAK" (WRONG, …) says what a program must allow for it. Lines are taken as they are, by the
indentation of the template.
"""

SIMPLE = """
<x:T> = {T}

<x:T> = {T}

<x:T> = {T}

<x:V> = {V}

<x:I> = {I}

<x:R> = {R}

<x:R> = {R}

<x:R> = torch.cat([{R}, {T}])

KEPT["rows"] = {R}

KEPT["rows"] = torch.cat([KEPT["rows"], {T}])

KEPT["rows"] = torch.cat([KEPT["rows"], {V}[None]])[-6:]

MODULE.kept = torch.cat((MODULE.kept, {R}))[-20:]

MODULE.kept = {R}

STEPS.append({R})

STEPS[:] = [{R}]

{obj!}.rows = {R}

{R@} += {V}

{R@r} = torch.cat([{r}, {r}[-1:]])

{R!}[-1] = {V}

{R!}[0] += {int}

{R!}[:2].mul_({float})

{R!}.add_({rate})

{R!r}[1:] = {r}[:-1].clone()

{R!r}.copy_({r}.flip(0))

LOG.append({R}.shape)

LOG.append(len({R}))

LOG.append({R})

<x:float> = {rate} * {float}

MODULE.rate *= {float}

MODULE.rate = {float}

G_RATE[0] += 0.25

G_RATE.append({rate})

LOG.append({rate})

<x:int> = {int}

<x:int> = {int}

<x:float> = {float}

<x:str> = {str}

<x:lint> = {lint}

<x:dsi> = {dsi}

<x:sint> = {sint}

<x:tint> = {tint}

<x:lT> = {lT}

<x:dsT> = {dsT}

<x:obj> = {obj}

<x:fint> = {fint}

<x:fT> = {fT}

<x:int>, <y:int> = {int}, {int}

<x:int>, *<y:lint> = {tint}

<x:int>, (<y:T>, <z:str>) = {int}, ({T}, {str})

<x:lint> = <y:lint> = {lint}

{int@} += {int}

{int@i} = ({i} * 2 + 1) % 97

{T@} += {T}

{T@} *= {float}

{lint@} += [{int}]

{str@} += "x"

{float@} -= 0.5

{T!}.add_({T})

{T!}.mul_({int})

{T!}[0] = {V}

{T!}[:, 1] = {float}

{T!}[{bool}, {int} % 3] += 1

{T!}[0].add_({V!})

{T!}.zero_()

{T!}.copy_({T})

{T!}.clamp_(min={int})

{V!}.add_({int})

{I!} += {int}

{I!}[0, 0] = {int}

{lint!}.append({int})

{lint!}.insert({int}, {int})

{lint!}.extend({lint}[:2])

{lint!}.reverse()

{lint!}.sort()

# RARE
{lint!}.sort(key=lambda <~i:int>: -{i})

{lint!}[1:] = {lint}[:3]

{lint!l}[::2] = [0] * len({l}[::2])

del {lint!}[2:]

{lint!}.clear()

# WRONG
{lint!}[0] = {int}

# WRONG
del {lint!}[0]

# WRONG
{lint!}.remove({int})

{lT!}.append({T})

{lT!}[:] = [{T}]

{dsi!}[{str}] = {int}

{dsi!d}["n"] = {d}.get("n", 0) + 1

{dsi!}.update(q={int}, **{{{str}: {int}}}) if {bool} else {dsi!}.update({dsi})

{dsi!}.pop("a", None)

# WRONG
del {dsi!}["a"]

{dsi!}.setdefault("s", {int})

{dsi@} |= {{"w": {int}}}

{dsT!}[{str}] = {T}

{sint!}.add({int})

{sint!}.discard({int})

{sint!}.update({lint}[:3])

{sint!}.add({int} * 8)

{sint!}.update({sint})

{sint@} |= {sint}

{sint@} -= {sint}

{sint@} ^= {sint}

# RARE
{sint!}.clear()

# WRONG
{sint!}.remove({int})

# WRONG
<x:int> = {sint!}.pop()

{obj!}.count = {int}

{obj!}.count += 1

{obj!}.total = {int}

{obj!}.bump({int})

{obj!}.items.append({int})

{obj!}.items = {lint}

{obj!}.buf = {T}

{obj!}.buf.add_({int})

{obj!}.buf += {T}

{obj!}[{int}] = {int}

del {obj!}[{int}]

setattr({obj!}, "extra", {int})

{obj!}.extra = {T}

# WRONG
del {obj!}.extra

{obj!}.__dict__["note"] = {int}

LOG.append({int})

LOG.append({T})

LOG.append(({str}, {int}, {obj}))

G_LIST.append({int})

G_DICT[{str}] = {int}

# BREAK
COUNTER.update("ab")

QUEUE.append({int})

QUEUE.appendleft({T})

QUEUE.rotate(1)

# RARE
Config.level += 1

# RARE
Config.table[{str}] = {int}

# RARE
{cls}.shared = {int}

MODULE.steps += 1

MODULE.scale.mul_(2)

MODULE.extra = {T}

assert {bool} or True

# WRONG
assert {bool}, {str}

pass

_ = [LOG.append(<~i:int>) for {i} in {^lint}[:3]]

# WRONG
raise Problem({str}, {int})

# WRONG
raise ValueError({str}) from KeyError({int})

# BREAK
print({str}, {int}, {lint})

# BREAK
print({T!}.shape, {int}, end=";")

# BREAK
print({T})

# BREAK
<x:int> = random.randint(0, 9)

# BREAK
<x:float> = round({T}.sum().item(), 2)

# BREAK
sys.stdout.write({str})

# BREAK
torch.manual_seed({int} % 50)
"""
