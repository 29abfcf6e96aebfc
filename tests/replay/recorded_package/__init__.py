"""A package of a program that the process which replays does not have."""

SCALE = 3.0
UNUSED = open
