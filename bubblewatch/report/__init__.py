"""What a person or a script reads: text and JSON."""
