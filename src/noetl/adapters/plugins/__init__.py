"""Plug-ins: found in installed packages, loaded if enabled, checked on each call."""
