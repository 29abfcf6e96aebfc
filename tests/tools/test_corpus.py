"""The corpus of bench/: programs are compared in all that can be seen, and its table tells what fails."""

import importlib.util
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

import pellucid

BENCH = Path(__file__).parents[2] / "bench"
sys.path.append(str(BENCH))

from programs import Case, Program, load  # noqa: E402


def load_corpus():
    """bench/corpus.py under a name of its own: there is a package `corpus` in tests/changes."""
    spec = importlib.util.spec_from_file_location("bench_corpus", BENCH / "corpus.py")
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


corpus = load_corpus()


def planted(make):
    return Program(make.__name__, "planted", make, inductor=False)


def verdict(make, in_process=True, seconds=30.0):
    result = corpus.check_program(planted(make), ["eager"], seconds, with_peer=False, in_process=in_process)
    return result.run("eager").verdict


@pytest.mark.parametrize(
    "name",
    [
        "train_sgd",
        "clip_norm",
        "not_reentrant",
        "setup_context_style",
        "grad_of_a_sum",
        "random_of_python",
        "checked_values",
    ],
)
def test_programs_are_right(name):
    result = corpus.check_program(load()[name], ["eager"], 60.0, with_peer=False, in_process=True)
    assert result.is_right, result.runs
    assert result.run("eager").graphs


def test_the_peer_counts_beside():
    result = corpus.check_program(load()["grad_of_a_sum"], ["eager"], 60.0, with_peer=True, in_process=True)
    assert result.peer("eager").verdict == "right"
    assert result.peer("eager").graphs == 1 and result.run("eager").graphs == 1
    assert not result.more_graphs and not result.is_whole_where_peer_breaks


def wrong_value():
    return Case(lambda x: x + 1 if pellucid.is_compiling() else x * 1, [(torch.ones(3),)] * 2)


def wrong_gradient():
    def f(x):
        return x + x.detach() if pellucid.is_compiling() else x + x

    return Case(f, [(torch.ones(3, requires_grad=True),) for _ in range(2)])


def wrong_order_of_calls():
    log = []

    def f(x):
        log.extend(["b", "a"] if pellucid.is_compiling() else ["a", "b"])
        return x + 1

    return Case(f, [(torch.ones(3),)] * 2, state=log)


def wrong_random_state():
    def f(x):
        return x + torch.rand(1) * 0 if pellucid.is_compiling() else x + 0

    return Case(f, [(torch.ones(3),)] * 2)


def wrong_exception():
    def f(x):
        raise ValueError("compiled" if pellucid.is_compiling() else "eager")

    return Case(f, [(torch.ones(3),)] * 2)


def wrong_sharing():
    return Case(lambda x: x.clone() if pellucid.is_compiling() else x.view(-1), [(torch.ones(3),)] * 2)


def wrong_strides():
    def f(x):
        return x.t().clone() if pellucid.is_compiling() else x.t().contiguous()

    return Case(f, [(torch.ones(3, 2),)] * 2)


def wrong_in_the_second_call():
    def f(x, number):
        return x + number * 10 if pellucid.is_compiling() and number else x + number

    return Case(f, [(torch.ones(3), 0), (torch.ones(3), 1)])


WRONG = [
    wrong_value,
    wrong_gradient,
    wrong_order_of_calls,
    wrong_random_state,
    wrong_exception,
    wrong_sharing,
    wrong_strides,
    wrong_in_the_second_call,
]


@pytest.mark.parametrize("make", WRONG, ids=lambda make: make.__name__)
def test_what_differs_is_told(make):
    result = corpus.check_program(planted(make), ["eager"], 30.0, with_peer=False, in_process=True)
    assert result.run("eager").verdict.startswith("wrong: call "), result.runs
    assert not result.is_right
    assert "| **no** |" in corpus.table([result])
    assert corpus.summary([result])["right"] == 0
    assert make.__name__ in corpus.page([result])


def test_other_rounding_is_told():
    def rounds():
        return Case(lambda x: x * (1 + 2**-22) if pellucid.is_compiling() else x * 1.0, [(torch.ones(3),)] * 2)

    result = corpus.check_program(planted(rounds), ["eager"], 30.0, with_peer=False, in_process=True)
    assert result.run("eager").verdict.startswith("rounded: ") and result.is_right
    assert "| rounded |" in corpus.table([result])


def test_a_program_that_differs_from_itself_is_no_measure():
    system = random.SystemRandom()

    def unsteady():
        return Case(lambda x: x + system.random(), [(torch.ones(3),)] * 2)

    assert verdict(unsteady).startswith("eager differs from itself")


def test_a_child_that_hangs_or_dies_is_told():
    def hangs():
        return Case(lambda x: time.sleep(60), [(torch.ones(3),)] * 2)

    def dies():
        return Case(lambda x: os._exit(3), [(torch.ones(3),)] * 2)

    def is_broken():
        raise ValueError("no case")

    assert verdict(hangs, in_process=False, seconds=1.0) == "failed: no result after 1 s"
    assert verdict(dies, in_process=False) == "failed: the process ended with code 3"
    assert verdict(is_broken, in_process=False).startswith("failed: ValueError: no case")


def test_graphs_beside_the_peers():
    def result(ours, theirs, breaks=(), peer="right", backend="eager", verdict="right"):
        return corpus.Result(
            "name",
            "area",
            {backend: corpus.Run(verdict, ours, ours, 1, list(breaks))},
            {backend: corpus.Run(peer, theirs, theirs, 1)},
        )

    assert result(2, 1).more_graphs == ["eager"]
    assert result(2, 1, backend="aot_eager").more_graphs == ["aot_eager"]
    assert result(0, 1).more_graphs, "nothing was captured"
    assert not result(1, 1).more_graphs
    assert not result(2, 0).more_graphs, "a peer that captured nothing is no measure"
    assert not result(2, 1, peer="wrong: call 1").more_graphs
    assert not result(2, 1, verdict="wrong: call 1").more_graphs
    assert result(1, 2).is_whole_where_peer_breaks
    assert not result(1, 1, ["PEL0304 print()"]).is_whole_where_peer_breaks


def test_there_are_programs_of_each_area():
    programs = load().values()
    assert len(programs) >= 150
    assert sum(program.inductor for program in programs) >= 30
    run = subprocess.run(
        [sys.executable, str(BENCH / "corpus.py"), "--list", "--area", "hooks"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "hooks_in_order" in run.stdout and "train_sgd" not in run.stdout
