// The room runtime.
