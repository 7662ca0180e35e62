"""What ``noetl doctor`` looks at: each file a part of the machine or of the home."""
