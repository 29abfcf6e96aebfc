// The room codegen.
