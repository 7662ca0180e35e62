"""An execution as one page: its log and its playbook in, HTML out. Pure."""
