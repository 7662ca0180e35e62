"""Tools as playbooks of the dialect ``classic`` know them."""
