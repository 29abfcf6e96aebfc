"""Statements of the programs that hold others: templates as statements.py tells."""

COMPOUND = """
if {bool}:
    BLOCK

if {bool}:
    BLOCK
else:
    BLOCK

if {bool}:
    BLOCK
elif {int} > 2:
    BLOCK
else:
    BLOCK

# BREAK
if {T}.sum() > {int}:
    BLOCK
else:
    BLOCK

for <~i:int> in range({int} % 4):
    LOOP

for <~i:int>, <~j:int> in enumerate({lint}[:4]):
    LOOP
else:
    BLOCK

for <~k:str>, <~v:int> in list({dsi}.items())[:4]:
    LOOP

for <~i:int> in {obj}:
    LOOP

for <~i:int> in {gen}({int} % 5):
    LOOP
else:
    BLOCK

for <~t:T> in list({lT})[:4]:
    LOOP

for <~t:V> in {T}:
    LOOP

for <~t:R> in {R}.split(2):
    LOOP

if {R}.shape[0] > {int}:
    BLOCK
else:
    BLOCK

while len({R@r}) < 7:
    {r} = torch.cat([{r}, {V}[None]])
    LOOP

for <~i:int> in {lint!l}:
    if len({l}) > 6:
        break
    LOOP

for <~i:int>, <~j:int> in itertools.zip_longest({lint}[:3], {tint}, fillvalue=0):
    LOOP

<w:int> = 0
while {w} < {int} % 5:
    {w} += 1
    LOOP
else:
    BLOCK

<w:int> = 3
while True:
    {w} -= 1
    if {w} < 0:
        break
    LOOP

try:
    BLOCK
except (ValueError, IndexError, KeyError):
    BLOCK
else:
    BLOCK

try:
    BLOCK
    <~x:int> = {lint}[{int}]
except IndexError as <~e:error>:
    LOG.append(str({e}))
    BLOCK

try:
    <~x:int> = {dsi}["nothing"]
except KeyError as <~e:error>:
    LOG.append({e}.args)
    BLOCK
finally:
    BLOCK

try:
    BLOCK
    raise Problem({str}, {int})
except Problem as <~e:error>:
    {obj!}.count += {e}.code
    BLOCK

try:
    try:
        BLOCK
        raise ValueError({str})
    except ValueError as <~e:error>:
        BLOCK
        raise Problem("again", {int}) from {e}
except Problem as <~e:error>:
    LOG.append((type({e}.__cause__).__name__, str({e})))

try:
    try:
        <~x:int> = {int} // ({int} % 2)
        BLOCK
    finally:
        LOG.append({int})
        BLOCK
except ZeroDivisionError:
    BLOCK

try:
    {lint!}.remove(99)
except Exception as <~e:error>:
    LOG.append(type({e}).__name__)
    if isinstance({e}, ValueError):
        BLOCK

# RARE
try:
    BLOCK
    {T!}.view(7, 7)
except RuntimeError:
    BLOCK

try:
    BLOCK
    {obj!}.nothing
except AttributeError as <~e:error>:
    LOG.append(str({e}))

# RARE
try:
    BLOCK
    raise ExceptionGroup("group", [ValueError({int}), KeyError({str})])
except* ValueError as <~e:error>:
    LOG.append(len({e}.exceptions))
except* KeyError:
    BLOCK

for <~i:int> in range(3):
    try:
        if {i} == {int}:
            continue
        LOOP
    finally:
        LOG.append({i})

with torch.no_grad():
    BLOCK

with torch.enable_grad(), Suppress(KeyError):
    BLOCK
    {dsi!}["absent"]

with {obj} as <~o:obj>:
    BLOCK

with Suppress(ValueError, IndexError) as <~o:any>:
    BLOCK
    raise ValueError({int})

with noted({str}) as <~i:int>:
    BLOCK

with noted({str}), {obj}:
    BLOCK

with contextlib.suppress(KeyError):
    BLOCK
    {dsi!}["absent"]

# RARE
with contextlib.ExitStack() as <~s:any>:
    {s}.callback(LOG.append, {int})
    BLOCK

def <h:fint>(<~a:int>, <~b:int>={int}):
    NONLOCAL
    DEF
    return {int}

def <h:fint>(<~a:int>=0, *<~r:tint>, <~k:int>={int}, **<~q:dsi>):
    NONLOCAL
    DEF
    return {int}

def <h:fT>(<~t:T>):
    NONLOCAL
    DEF
    return {T}

def <h:fT>(<~t:T>, <~l:lint>=[]):
    {l}.append(len({l}))
    DEF
    return {T} + len({l})

def <g:gen>(<~n:int>):
    NONLOCAL
    for <~i:int> in range({n}):
        LOOP
        yield {int}
    return {int}

def <g:gen>(<~n:int>):
    try:
        yield {n}
        yield from {gen}({n} % 3)
        <~i:int> = yield {int}
        DEF
    finally:
        LOG.append({int})

@functools.wraps(abs)
def <h:fint>(*<~r:tint>, **<~q:dsi>):
    return {fint}(*{r}[:1] or (1,))

def <h:fint>(<~n:int>):
    if {n} > 5 or {n} <= 0:
        return {int}
    return {n} + {h}({n} - 1)

<x:any> = {gen}({int} % 4 + 1)
<y:int> = next({x}, {int})
BLOCK
<z:lint> = list({x})

<x:any> = {gen}(3)
try:
    <~y:int> = next({x})
    BLOCK
    {x}.send({int}) if {bool} else {x}.close()
except StopIteration as <~e:error>:
    LOG.append({e}.value)

match {int}:
    case 0 | 1:
        BLOCK
    case <~n:int> if {n} > 3:
        BLOCK
    case _:
        BLOCK

match {lint}:
    case []:
        BLOCK
    case [<~n:int>]:
        BLOCK
    case [<~a:int>, *<~r:lint>]:
        BLOCK

match ({str}, {int}):
    case ("a", <~n:int>):
        BLOCK
    case (_, 1 | 2 as <~m:int>):
        BLOCK
    case <~p:any>:
        BLOCK

# RARE
match {obj}:
    case A(count=<~n:int>) if {n} > 1:
        BLOCK
    case {cls}():
        BLOCK
    case _:
        BLOCK

# RARE
match {dsi}:
    case {{"a": <~n:int>, **<~r:dsi>}}:
        BLOCK
    case {{}}:
        BLOCK

# RARE
class <c:cls>({cls}):
    shared = {int}

    def bump(self, <~n:int>):
        return super().bump({n}) + {int}

<x:lint> = []
for <~i:int> in range(3):
    {x}.append((lambda <~j:int>=0: {i} + {j}))
<y:lint> = [<~i:any>() for {i} in {x}]
{x}.clear()

<x:int> = {int}
def <h:fint>(<~a:int>):
    nonlocal {x}
    {x} += {a} % 7
    return {x}
{fint}({h}({int}))

<x:T> = {T}
<y:V> = {x}[1]
{y}.add_({int})
BLOCK

<x:lint> = {lint}
<y:lint> = {x}
{y}.append({int})
BLOCK

<x:obj> = {obj}
<y:obj> = {x}
{y}.count = {int}
BLOCK

<x:lT> = [{T}] * 2
{x}[0].add_(1)
BLOCK

# FAILS
try:
    BLOCK
    {T!}.add_(1)
    <~t:T> = {T}.index_select(0, {I}[:, 0] % 3)
    {T!}.mul_(2)
    BLOCK
except IndexError as <~e:error>:
    LOG.append(str({e}))
    BLOCK

# FAILS
try:
    BLOCK
    {obj!}.count += 1
    <~i:I> = {I} // {I}
    {T!}.copy_({i})
    {obj}.count += 10
except RuntimeError as <~e:error>:
    LOG.append(str({e}))
    BLOCK
finally:
    {T!}.sub_(1)

# FAILS
try:
    {T!}.mul_({T})
    try:
        <~t:T> = torch.linalg.solve(({T} @ {T}.t()).floor(), {T})
        BLOCK
    except torch.linalg.LinAlgError as <~e:error>:
        {T!}.add_(3)
        raise Problem("singular", {int}) from {e}
except Problem as <~e:error>:
    LOG.append((str({e}), str({e}.__cause__)))
    BLOCK

# FAILS
for <~i:int> in range(3):
    try:
        {T!}[{i} % 2] += 1
        {T!}[torch.full((1,), {i} + {int} % 2), :1] = {i}
        LOOP
    except (IndexError, RuntimeError):
        {lint!}.append({i})
        LOOP

# FAILS
<x:T> = {T}
<y:V> = {x}[1]
try:
    {y}.add_({int})
    {x}.index_add_(0, {I}[:, 1] % 3, {T})
    {y}.zero_()
except (IndexError, RuntimeError) as <~e:error>:
    LOG.append(str({e}))
    {x}.mul_(2)

# WRONG
del {any@}

# WRONG
if {bool}:
    return {result}
"""
