"""For programs that tests start: what tests/support/forced_breaks.py does to pellucid happens when they import it."""

import importlib.abc
import importlib.util
import os
import sys
from pathlib import Path


class _AtImport(importlib.abc.MetaPathFinder):
    def find_spec(self, fullname, path=None, target=None):
        if fullname != "pellucid":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec("pellucid")
        run = spec.loader.exec_module

        def exec_module(module):
            run(module)
            switch = importlib.util.spec_from_file_location(
                "forced_switch", Path(__file__).parent.parent / "support/forced_switch.py"
            )
            functions = importlib.util.module_from_spec(switch)
            switch.loader.exec_module(functions)
            functions.ignore_fullgraph(module)
            functions.switch_on(module, os.environ["PELLUCID_FORCED_BREAKS"])

        spec.loader.exec_module = exec_module
        return spec


if "PELLUCID_FORCED_BREAKS" in os.environ:
    sys.meta_path.insert(0, _AtImport())
