// The room guards.
