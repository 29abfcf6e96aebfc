"""Each opcode of the running CPython has a row in the table and a rule, or a policy that says why it breaks."""

import dis
import importlib.util
import pathlib

TOOL = pathlib.Path(__file__).parent.parent / "tools" / "opcodes.py"
spec = importlib.util.spec_from_file_location("opcodes_tool", TOOL)
opcodes = importlib.util.module_from_spec(spec)
spec.loader.exec_module(opcodes)


def test_every_opcode_has_a_row():
    table = {name: number for number, name in opcodes.rows()}
    known = {name: number for name, number in dis.opmap.items() if not name.startswith(("INSTRUMENTED_",))}
    assert table == known


def test_every_row_has_a_rule_or_a_policy():
    bodies = opcodes.rules()
    names = {name for _, name in opcodes.rows()}
    assert names <= set(bodies)
    assert {name for name in names if opcodes.refuses(bodies[name])} == set(opcodes.POLICY)


def test_the_page_is_up_to_date():
    assert opcodes.PAGE.read_text() == opcodes.page()
