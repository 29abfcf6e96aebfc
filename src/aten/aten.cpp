// The room aten.
