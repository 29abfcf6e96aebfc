// The room trace.
