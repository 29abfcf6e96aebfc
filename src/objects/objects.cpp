// The room objects.
