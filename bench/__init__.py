"""The benchmark: a real broker in a process of its own, over a real socket, against two floors of the same run."""
