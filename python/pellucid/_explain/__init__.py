"""What capture makes of a function: read from the events of one real run, as text, data and a page."""

from pellucid._explain.output import ExplainOutput, Guard, Region
from pellucid._explain.run import ExplainWithBackend, explain

__all__ = ["ExplainOutput", "ExplainWithBackend", "Guard", "Region", "explain"]
