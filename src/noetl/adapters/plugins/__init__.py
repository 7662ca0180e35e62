"""Plug-ins: found in installed packages, loaded if enabled, never trusted blindly."""
