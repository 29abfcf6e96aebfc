"""The table of programs, with how many graphs each may make: `support.calls` says what a program is and runs one."""

from __future__ import annotations

from support.calls import Keywords, Program, ramp, run

__all__ = ["PROGRAMS", "Keywords", "Program", "program", "ramp", "run"]

PROGRAMS: list[Program] = []


def program(target: int, now: int, why: str = ""):
    def add(make):
        PROGRAMS.append(Program(make, target, now, why))
        return make

    return add
