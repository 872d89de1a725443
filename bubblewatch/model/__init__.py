"""Values that every layer speaks: frozen dataclasses and protocols, standard library only."""
