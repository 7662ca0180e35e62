"""Asyncio shells: they drive the engine through ports."""
