// The room handlers.
