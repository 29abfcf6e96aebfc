"""The main job in small: what `make demo` runs."""

import sys
import time

import torch

import pellucid


def main() -> int:
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Linear(16, 4)).eval()
    x = torch.randn(2, 8)
    expected = model(x)
    compiled = pellucid.compile(model, backend="eager")
    start = time.perf_counter()
    result = compiled(x)
    print(f"first call: {1e3 * (time.perf_counter() - start):.1f} ms")
    if not torch.equal(result, expected):
        print("the compiled model gives another result than eager", file=sys.stderr)
        return 1
    print("same result as eager")
    return 0


if __name__ == "__main__":
    sys.exit(main())
