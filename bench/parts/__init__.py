"""What the measuring programs beside this folder are made of."""
