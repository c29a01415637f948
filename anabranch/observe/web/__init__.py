"""The web page of a lake: what the graph is doing, live, and why."""
