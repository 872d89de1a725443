"""Numbers with names: from readings, log events and settings to the signals that rules speak of."""
