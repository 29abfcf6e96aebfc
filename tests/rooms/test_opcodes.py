"""Each opcode of the running CPython has a row in the table; what the rows say reaches the page and the messages."""

import dis
import importlib.util
import pathlib
import sys

TOOL = pathlib.Path(__file__).parents[2] / "tools" / "opcodes.py"
spec = importlib.util.spec_from_file_location("opcodes_tool", TOOL)
opcodes = importlib.util.module_from_spec(spec)
sys.modules[spec.name] = opcodes  # dataclasses look their module up
spec.loader.exec_module(opcodes)


def test_every_opcode_has_a_row():
    table = {row.name: int(row.number) for row in opcodes.rows()}
    known = {name: number for name, number in dis.opmap.items() if not name.startswith(("INSTRUMENTED_",))}
    assert table == known


def test_every_policy_has_an_opcode():
    assert {row.policy for row in opcodes.rows()} == set(opcodes.policies())


def test_what_breaks_by_policy_names_what_the_user_wrote():
    breaks = [row for row in opcodes.rows() if row.policy not in ("Symbolic", "Unreachable", "Prefix")]
    assert len(breaks) == 8
    assert all(row.words for row in breaks)


def test_the_page_is_up_to_date():
    assert opcodes.PAGE.read_text() == opcodes.page()
