"""Records of captures, and captures of records (docs/replay.md)."""
