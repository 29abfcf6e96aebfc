import os
from pathlib import Path

import pellucid

# Programs that tests start import the same pellucid as the tests themselves.
home = str(Path(pellucid.__file__).parent.parent)
os.environ["PYTHONPATH"] = os.pathsep.join([home, *filter(None, [os.environ.get("PYTHONPATH")])])
