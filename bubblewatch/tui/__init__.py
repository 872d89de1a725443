"""The screen: what a feed shows, drawn as lines by pure functions, and a Textual application that puts them up."""
