"""Work for several threads at once."""

from __future__ import annotations

import threading


def run_threads(count, work):
    """Calls work(i) in `count` threads that start together; raises what the first that failed raised."""
    failed = []

    def run(i):
        try:
            start.wait(30)
            work(i)
        except BaseException as error:
            failed.append(error)

    start = threading.Barrier(count)
    threads = [threading.Thread(target=run, args=(i,), daemon=True) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive(), "a thread hangs"
    if failed:
        raise failed[0]
