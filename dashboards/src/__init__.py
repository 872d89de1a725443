"""One file a dashboard, and the panels that they are made of."""
