"""The mathematics, pure: slot ring, sensor models, rooflines."""
