"""What is captured inside `pellucid.debug(directory)`, as files."""
