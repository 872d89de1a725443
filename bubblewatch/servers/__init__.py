"""What we know of each inference server, pure."""
