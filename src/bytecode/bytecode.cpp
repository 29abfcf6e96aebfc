// The room bytecode.
