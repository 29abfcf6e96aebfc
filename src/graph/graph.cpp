// The room graph.
