"""``make steady``: thirty connectors in one shared application for long, amid trouble of every kind; records and growth are judged."""
