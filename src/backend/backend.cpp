// The room backend.
