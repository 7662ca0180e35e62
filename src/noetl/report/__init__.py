"""Report of an execution as one page: log and playbook in, HTML out. Pure."""
