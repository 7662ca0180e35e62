"""Large values: where they are stored, how they are loaded, who owns them."""
