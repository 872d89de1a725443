"""The pages: each is a pure function of a feed, of what the person chose, and of the room there is."""
